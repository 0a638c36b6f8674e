// The changes of a compaction, by `tool_use_id`. Claude Code gives messages new ids, but calls keep their ids. Pure functions.

import type { Row } from './rows'

/** `results` has the length of each changed result, or -1 if it was removed. */
export type Applied = { at: number; before: number; after: number; what: string; results: Record<string, number> }

/** The length of each result. After a resume, Claude Code can show a result twice. */
function lengths(rows: readonly Row[]): (readonly [string, number])[] {
  return rows.flatMap(row => (row.toolResults ?? []).map(result => [result.tool_use_id, result.text.length] as const))
}

export function record(before: readonly Row[], after: readonly Row[], facts: Omit<Applied, 'results'>): Applied {
  const kept = new Map(lengths(after))
  const changed = lengths(before).filter(([id, length]) => kept.get(id) !== length)
  return { ...facts, results: Object.fromEntries(changed.map(([id]) => [id, kept.get(id) ?? -1])) }
}

/** Returns whether the messages have a result that is longer than after the compaction. */
export function isLost(applied: Applied, rows: readonly Row[]): boolean {
  return lengths(rows).some(([id, length]) => length > (applied.results[id] ?? Infinity))
}

/** Returns the text of the status line. */
export function sentence(applied: Applied): string {
  const { before, after } = applied
  const percent = (100 * (1 - after / Math.max(before, 1))).toFixed(0)
  const [from, to] = [before, after].map(tokens => tokens.toLocaleString('en-US'))
  return `${from} -> ${to} tokens (-${percent} %, ${applied.what})`
}
