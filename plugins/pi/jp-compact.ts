// Answers compactions of pi with jp-compact. Load it with `pi -e jp-compact.ts`, or put it into ~/.pi/agent/extensions.
//
// Without a summary, the compaction keeps every entry. Its `details` have the shortened results and arguments by call id, and
// the `context` event puts them into each request. pi stores them in the session, so a resumed session is equally small.
// Without this extension, pi sends the original entries again. A summary replaces all entries before the first kept one.
//
// This extension must never throw. On any failure, and if pi cannot store the view, pi's own compaction runs.

import { spawn } from 'node:child_process'

import type { ExtensionAPI, ExtensionContext } from '@mariozechner/pi-coding-agent'

type Entry = {
  type: string
  id: string
  parentId?: string | null
  message?: Message
  details?: unknown
  summary?: string
  firstKeptEntryId?: string
}
type Part = { type: string; text?: string; id?: string; arguments?: unknown }
type Message = { role: string; content: string | Part[]; toolCallId?: string; excludeFromContext?: boolean }
/** The text of a result, and the arguments of a call, by the id of the call. */
type Changes = { results: Record<string, string>; calls: Record<string, unknown> }

const LIMIT_MS = 20_000
const MINIMUM_SAVING = 20

function run(words: string[], input: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(words[0] as string, words.slice(1), { stdio: ['pipe', 'pipe', 'pipe'], signal, timeout: LIMIT_MS })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', data => (stdout += data))
    child.stderr.setEncoding('utf8').on('data', data => (stderr += data))
    child.on('error', reject)
    child.stdin.on('error', reject)
    child.on('close', () => (stdout === '' ? reject(new Error(stderr.trim() || 'no answer')) : resolve(stdout)))
    child.stdin.end(input)
  })
}

function textOf(content: string | Part[]): string {
  return typeof content === 'string' ? content : content.map(part => part.text ?? '').join('\n')
}

/** Returns the messages with the changed results and arguments. */
function apply(messages: Message[], changes: Changes): Message[] {
  return messages.map(message => {
    const text = message.role === 'toolResult' ? changes.results[message.toolCallId ?? ''] : undefined
    if (text !== undefined) {
      return { ...message, content: [{ type: 'text', text }] }
    }
    if (message.role !== 'assistant' || typeof message.content === 'string') {
      return message
    }
    const content = message.content.map(part =>
      part.type === 'toolCall' && changes.calls[part.id ?? ''] !== undefined ? { ...part, arguments: changes.calls[part.id ?? ''] } : part,
    )
    return { ...message, content }
  })
}

/** Returns the changes between two lists of entries with the same ids. */
function changesBetween(before: Entry[], after: Entry[]): Changes {
  const changes: Changes = { results: {}, calls: {} }
  const views = new Map(after.map(entry => [entry.id, entry.message]))
  for (const { id, message } of before) {
    const view = views.get(id)
    if (message?.role === 'toolResult' && view !== undefined && textOf(view.content) !== textOf(message.content)) {
      changes.results[message.toolCallId ?? ''] = textOf(view.content)
    }
    if (message?.role === 'assistant' && view !== undefined && Array.isArray(message.content) && Array.isArray(view.content)) {
      const args = new Map(view.content.map(part => [part.id, part.arguments]))
      for (const part of message.content.filter(part => part.type === 'toolCall' && args.has(part.id))) {
        if (JSON.stringify(args.get(part.id)) !== JSON.stringify(part.arguments)) {
          changes.calls[part.id ?? ''] = args.get(part.id)
        }
      }
    }
  }
  return changes
}

/** Returns the entries that pi sends, as a chain. It has the newest compaction if that one hides earlier entries. */
function visible(entries: Entry[]): Entry[] {
  const at = entries.findLastIndex(entry => entry.type === 'compaction')
  const last = entries[at]
  const first = last === undefined ? 0 : entries.findIndex(entry => entry.id === last.firstKeptEntryId)
  // A compaction without a summary only points to the first entry.
  const isOwn = (last?.details as { jpCompact?: Changes } | undefined)?.jpCompact !== undefined
  const isWhole = first === 0 && isOwn
  const rest = entries.slice(first < 0 ? at : first).filter(entry => entry.type !== 'compaction' || (entry === last && !isWhole))
  return rest.map((entry, number) => ({ ...entry, parentId: rest[number - 1]?.id ?? null }))
}

/** Returns whether pi sends the entry. */
function isSent({ type, message }: Entry): boolean {
  return ['message', 'custom_message', 'branch_summary'].includes(type) && message?.excludeFromContext !== true
}

function isRequest({ message }: Entry): boolean {
  const content = message?.content ?? ''
  return message?.role === 'user' && (typeof content === 'string' || content.every(part => part.type === 'text'))
}

/**
 * Returns the compaction that sends the view, with `text` if there is no summary. pi sends the text of a compaction, then all
 * entries from one entry on.
 */
function compactionOf(before: Entry[], view: Entry[], text: string): { summary: string; firstKeptEntryId: string } {
  const ids = new Set(before.map(entry => entry.id))
  const originals = before.filter(isSent)
  const earlier = before.find(entry => entry.type === 'compaction')
  const sent = view.filter(isSent)
  // A summary is a message of the user and one of the model.
  const added = sent.filter(entry => !ids.has(entry.id))
  const rest = sent.slice(added.length)
  if (added.length === 0 && rest.length === originals.length) {
    const [first] = earlier === undefined ? before : originals
    return { summary: earlier?.summary ?? text, firstKeptEntryId: (first as Entry).id }
  }
  let first = rest.length
  while (first > 0 && rest[first - 1]?.id === originals.at(first - 1 - rest.length)?.id) {
    first -= 1
  }
  // jp-compact keeps the request of a turn whose first steps have a summary.
  const requests = rest.slice(0, first)
  const isEarlierKept = view.some(entry => entry.type === 'compaction' && entry.summary)
  if (added.length !== 2 || isEarlierKept || !requests.every(entry => ids.has(entry.id) && isRequest(entry))) {
    throw new Error('pi cannot store this view as a compaction')
  }
  const texts = requests.map(entry => `**Request of the user:**\n\n${textOf(entry.message?.content ?? '')}`)
  const summary = [textOf(added[1]?.message?.content ?? ''), ...texts].join('\n\n---\n\n')
  // With an empty id, pi sends no earlier entry.
  return { summary, firstKeptEntryId: rest[first]?.id ?? '' }
}

/** Returns the changes of all compactions of the branch. The newest one wins. */
function stored(entries: Entry[]): Changes {
  const all: Changes = { results: {}, calls: {} }
  for (const entry of entries) {
    const changes = (entry.details as { jpCompact?: Changes } | undefined)?.jpCompact
    Object.assign(all.results, changes?.results)
    Object.assign(all.calls, changes?.calls)
  }
  return all
}

export default function (pi: ExtensionAPI) {
  pi.registerFlag('jp-compact', { description: 'The executable of jp-compact', type: 'string', default: 'jp-compact' })
  pi.registerFlag('jp-profile', { description: 'The profile of jp-compact that compacts', type: 'string', default: 'agent' })

  const branch = (ctx: ExtensionContext) => ctx.sessionManager.getBranch() as unknown as Entry[]

  pi.on('context', (event, ctx) => {
    const messages = apply(event.messages as unknown as Message[], stored(branch(ctx)))
    return { messages: messages as unknown as typeof event.messages }
  })

  pi.on('session_before_compact', async (event, ctx) => {
    // At the end of `pi -p`, `ctx` becomes invalid while this function runs, so it is not read after the first `await`.
    const { ui } = ctx
    try {
      const entries = event.branchEntries as unknown as Entry[]
      const words = [pi.getFlag('jp-compact'), '--quiet', 'batch', '--ndjson', '--view', '--profile', pi.getFlag('jp-profile')].map(String)
      // jp-compact reads the result of the last compaction.
      const earlier = stored(entries)
      const small = visible(entries).map(entry =>
        entry.message === undefined ? entry : { ...entry, message: apply([entry.message], earlier)[0] as Message },
      )
      const lines = [ctx.sessionManager.getHeader(), ...small]
      const record = { id: 1, format: 'pi', transcript: lines }
      const answer = JSON.parse(await run(words, `${JSON.stringify(record)}\n`, event.signal))
      if (!answer.ok) {
        throw new Error(answer.error?.message)
      }
      const { view_before: before, view_after: after } = answer.tokens
      const percent = Math.round(100 * (1 - after / Math.max(before, 1)))
      if (percent < MINIMUM_SAVING) {
        throw new Error(`saves ${percent} %, less than ${MINIMUM_SAVING} %`)
      }
      const view = answer.view as Entry[]
      const sentence = `jp-compact: ${before.toLocaleString('en-US')} -> ${after.toLocaleString('en-US')} tokens (-${percent} %)`
      const compaction = compactionOf(small, view, `${sentence}. Old tool results are shorter; every message is kept.`)
      ui.setStatus('jp-compact', sentence)
      return {
        compaction: {
          ...compaction,
          tokensBefore: event.preparation.tokensBefore,
          details: { jpCompact: changesBetween(small, view) },
        },
      }
    } catch (error) {
      ui.notify(`jp-compact: ${error instanceof Error ? error.message : error}. The compaction of pi runs.`, 'warning')
      return undefined
    }
  })
}
