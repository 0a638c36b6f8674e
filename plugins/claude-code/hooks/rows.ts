// The messages of a compaction as a request to Anthropic, and the view of that request as messages. Pure functions.
//
// A message that is returned with its handle stays unchanged, with images and attachments. A message without a handle
// is built from its fields. Each block of the request has the number of its message in `row`, a member that jp-compact
// leaves in the view.
//
// A response of a closed turn, and a result without an image, must not keep the handle. Otherwise, at the next `--resume`,
// Claude Code joins responses with one id, and puts such a result after the original call: all original messages come back.

export type ToolUse = { tool_use_id: string; tool: string; input: Record<string, unknown>; result?: unknown }
export type ToolResult = { tool_use_id: string; text: string; isError: boolean }
export type Row = {
  role: 'user' | 'assistant'
  text: string
  toolUses: readonly ToolUse[]
  toolResults?: readonly ToolResult[]
  handle?: string
}
export type Block = Record<string, unknown> & { type: string; row?: number }
export type Message = { role: 'user' | 'assistant'; content: string | Block[] }
export type Body = { model: string; max_tokens: number; messages: Message[] }
type Rest = { text: string; toolUses: ToolUse[]; toolResults: ToolResult[] }

function blocksOf(row: Row, index: number): Block[] {
  const results = (row.toolResults ?? []).map(result => ({
    type: 'tool_result',
    tool_use_id: result.tool_use_id,
    content: result.text,
    ...(result.isError && { is_error: true }),
    row: index,
  }))
  const text = row.text.trim() === '' ? [] : [{ type: 'text', text: row.text, row: index }]
  const uses = row.toolUses.map(use => ({
    type: 'tool_use',
    id: use.tool_use_id,
    name: use.tool,
    input: use.input,
    row: index,
  }))
  return [...results, ...text, ...uses]
}

/** Returns the messages without originals that Claude Code shows next to their copies after a resume. */
export function withoutDuplicates(rows: readonly Row[]): Row[] {
  const seen = new Set<string>()
  const kept: Row[] = []
  for (const row of rows.toReversed()) {
    const ids = [...row.toolUses.map(use => use.tool_use_id), ...(row.toolResults ?? []).map(result => `result of ${result.tool_use_id}`)]
    const next = kept.at(-1)
    const isRepeated = ids.length === 0 && row.role === 'assistant' && next?.role === 'assistant' && next.text === row.text && next.toolUses.length === 0
    if (!isRepeated && (ids.length === 0 || ids.some(id => !seen.has(id)))) {
      kept.push(row)
    }
    ids.forEach(id => seen.add(id))
  }
  return kept.toReversed()
}

/** Returns the request that jp-compact reads. It lacks messages without text, calls, or results, such as thinking. */
export function toBody(rows: readonly Row[], model: string): Body {
  const messages: Message[] = []
  rows.forEach((row, index) => {
    const content = blocksOf(row, index)
    if (content.length > 0) {
      messages.push({ role: row.role, content })
    }
  })
  return { model, max_tokens: 1, messages }
}

/**
 * Returns the message that begins the open turn, or the number of messages if no turn is open. A prompt directly after
 * results does not begin a turn, because it is sent in one message with them. After a text of the model, no turn is
 * open. `fork` has the same rule.
 */
export function openTurn(rows: readonly Row[]): number {
  let prompt: number | undefined
  let hasCalls = false
  for (const [at, row] of [...rows.entries()].toReversed()) {
    if (row.toolUses.length > 0 || (row.toolResults?.length ?? 0) > 0) {
      prompt = undefined
      hasCalls = true
    } else if (row.role === 'user') {
      prompt = at
    } else if (row.text.trim() !== '' && (prompt !== undefined || !hasCalls)) {
      return prompt ?? rows.length
    }
  }
  return prompt ?? (hasCalls ? 0 : rows.length)
}

function resultText(content: unknown): string {
  if (typeof content === 'string') {
    return content
  }
  return (Array.isArray(content) ? content : []).map(part => String(part?.text ?? '')).join('\n')
}

/** The remaining parts of each message, and new texts of the view at their positions. */
function readView(view: Body, rows: readonly Row[]): { order: (number | Row)[]; rests: Map<number, Rest> } {
  const order: (number | Row)[] = []
  const rests = new Map<number, Rest>()
  for (const message of view.messages) {
    const blocks = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content
    for (const block of blocks as Block[]) {
      const index = block.row
      if (index === undefined || rows[index] === undefined) {
        order.push({ role: message.role, text: String(block.text ?? ''), toolUses: [] })
        continue
      }
      const rest = rests.get(index) ?? { text: '', toolUses: [], toolResults: [] }
      if (!rests.has(index)) {
        rests.set(index, rest)
        order.push(index)
      }
      if (block.type === 'text') {
        rest.text += String(block.text)
      } else if (block.type === 'tool_use') {
        const input = block.input as Record<string, unknown>
        rest.toolUses.push({ tool_use_id: String(block.id), tool: String(block.name), input })
      } else if (block.type === 'tool_result') {
        const isError = block.is_error === true
        rest.toolResults.push({ tool_use_id: String(block.tool_use_id), text: resultText(block.content), isError })
      }
    }
  }
  return { order, rests }
}

function isWhole(row: Row, rest: Rest): boolean {
  const results = row.toolResults ?? []
  return (
    (rest.text === row.text || (rest.text === '' && row.text.trim() === '')) &&
    rest.toolUses.length === row.toolUses.length &&
    rest.toolUses.every((use, at) => JSON.stringify(use.input) === JSON.stringify(row.toolUses[at]?.input)) &&
    rest.toolResults.length === results.length &&
    rest.toolResults.every((result, at) => result.text === results[at]?.text)
  )
}

/** A prompt can keep its handle. Results can keep it only with an image, because a text cannot represent the image. */
function canKeep(row: Row, rows: readonly Row[]): boolean {
  const ids = (row.toolResults ?? []).map(result => result.tool_use_id)
  const uses = rows.flatMap(other => other.toolUses.filter(use => ids.includes(use.tool_use_id)))
  return ids.length === 0 || uses.some(use => hasImage(use.result))
}

function hasImage(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) {
    return false
  }
  return (value as { type?: unknown }).type === 'image' || Object.values(value).some(hasImage)
}

function rebuilt(row: Row, rest: Rest): Row {
  const { role } = row
  return { role, text: rest.text, toolUses: rest.toolUses, ...(rest.toolResults.length > 0 && { toolResults: rest.toolResults }) }
}

/** Joins the parts of one response, so that a result still follows its call directly. */
function joined(rows: readonly Row[]): Row[] {
  const all: Row[] = []
  for (const row of rows) {
    const last = all.at(-1)
    const isNew = last !== undefined && last.handle === undefined && row.handle === undefined
    if (isNew && last.role === 'assistant' && row.role === 'assistant' && row.text === '') {
      all[all.length - 1] = { ...last, toolUses: [...last.toolUses, ...row.toolUses] }
    } else {
      all.push(row)
    }
  }
  return all
}

/** Returns the messages of the view. */
export function fromView(view: Body, rows: readonly Row[]): Row[] {
  const { order, rests } = readView(view, rows)
  const open = openTurn(rows)
  const isSent = (row: Row, index: number) => blocksOf(row, index).length > 0
  // Thinking comes in messages of its own. In the open turn it has to stay, with the responses that it belongs to.
  const hasThinking = rows.some((row, index) => index >= open && row.role === 'assistant' && !isSent(row, index))
  const kept: Row[] = []
  let next = 0
  function keepUnsent(end: number) {
    for (; next < end; next += 1) {
      const row = rows[next]
      if (row !== undefined && !isSent(row, next) && (row.role === 'user' || next >= open)) {
        kept.push(row)
      }
    }
  }
  for (const entry of order) {
    if (typeof entry !== 'number') {
      kept.push(entry)
      continue
    }
    const row = rows[entry] as Row
    const rest = rests.get(entry) as Rest
    keepUnsent(entry)
    next = Math.max(next, entry + 1)
    const keepsHandle = row.role === 'user' ? isWhole(row, rest) && canKeep(row, rows) : entry >= open && hasThinking
    kept.push(keepsHandle ? row : rebuilt(row, rest))
  }
  keepUnsent(rows.length)
  return joined(kept)
}
