// The mapping between the messages of a compaction and the view of jp-compact.

import { expect, test } from 'claude-code/testing'

import { isLost, record, sentence } from './applied'
import { fromView, openTurn, toBody, withoutDuplicates } from './rows'
import type { Block, Body, Row } from './rows'

const SMALL = '[small]'

function prompt(text: string, handle: string): Row {
  return { role: 'user', text, toolUses: [], handle }
}
function said(text: string, handle: string): Row {
  return { role: 'assistant', text, toolUses: [], handle }
}
function call(id: string, handle: string, result?: unknown): Row {
  const use = { tool_use_id: id, tool: 'Bash', input: { command: `cat ${id}` }, ...(result !== undefined && { result }) }
  return { role: 'assistant', text: '', toolUses: [use], handle }
}
function result(id: string, text: string, handle: string): Row {
  return { role: 'user', text: '', toolUses: [], toolResults: [{ tool_use_id: id, text, isError: false }], handle }
}
/** The view of a strategy that replaces the results of some calls. */
function view(rows: readonly Row[], replaced: string[]): Body {
  const body = toBody(rows, 'm')
  for (const block of body.messages.flatMap(message => message.content as Block[])) {
    if (replaced.includes(String(block.tool_use_id))) {
      block.content = SMALL
    }
  }
  return body
}
const shape = (rows: readonly Row[]) =>
  rows.map(row => row.handle ?? [row.text, ...row.toolUses.map(use => use.tool_use_id), ...(row.toolResults ?? []).map(part => part.text)].filter(part => part !== '').join('|'))

const TURN = [prompt('read', 'p1'), said('', 't1'), said('I read', 's1'), call('a', 'c1'), result('a', 'long text', 'r1'), said('done', 'd1')]

test('a closed turn is rebuilt without thinking, and the prompt keeps its handle', () => {
  const rows = fromView(view(TURN, ['a']), TURN)
  expect(shape(rows)).toEqual(['p1', 'I read|a', SMALL, 'done'])
})

test('unchanged responses and results are rebuilt too, because Claude Code would resume the originals', () => {
  const rows = fromView(view(TURN, []), TURN)
  expect(shape(rows)).toEqual(['p1', 'I read|a', 'long text', 'done'])
})

test('the open turn keeps its signed thinking and its responses', () => {
  const rows = [...TURN, prompt('again', 'p2'), said('', 't2'), call('b', 'c2'), result('b', 'long text', 'r2')]
  expect(shape(fromView(view(rows, ['a', 'b']), rows))).toEqual(['p1', 'I read|a', SMALL, 'done', 'p2', 't2', 'c2', SMALL])
})

for (const [name, letters, expected] of [
  ['a closed turn', 'PTCRS', 5],
  ['results', 'PTCRSPTCR', 5],
  ['a call without its result', 'PTCRSPTC', 5],
  ['thinking after results', 'PTCRSPTCRT', 5],
  ['a prompt', 'PTCRSP', 5],
  ['a prompt directly after results', 'PTCRSPTCRP', 5],
  ['two prompts directly after results', 'PTCRSPTCRPP', 5],
  ['a text between calls', 'PTCRSPTCRTSCR', 5],
  ['a prompt after a text between calls', 'PTCRSPTSCRSP', 11],
  ['no prompt', 'TCR', 0],
  ['nothing', '', 0],
] as const) {
  test(`the open turn of messages that end with ${name} is found`, () => {
    const build: Record<string, (handle: string) => Row> = {
      P: handle => prompt('read', handle),
      T: handle => said('', handle),
      S: handle => said('done', handle),
      C: handle => call('a', handle),
      R: handle => result('a', 'text', handle),
    }
    expect(openTurn([...letters].map((letter, at) => (build[letter] as (handle: string) => Row)(`m${at}`)))).toBe(expected)
  })
}

test('parallel calls stay in one response, before their results', () => {
  const rows = [prompt('read', 'p1'), call('a', 'c1'), call('b', 'c2'), result('a', 'one', 'r1'), result('b', 'two', 'r2')]
  expect(shape(fromView(view(rows, ['a']), rows))).toEqual(['p1', 'a|b', SMALL, 'two'])
})

test('an unchanged result with an image keeps its handle, and a prompt with only an image stays', () => {
  const image = { type: 'image', file: { base64: 'AAAA' } }
  const rows = [prompt('read', 'p1'), call('a', 'c1', image), result('a', '', 'r1'), prompt('', 'picture'), said('done', 'd1')]
  expect(shape(fromView(view(rows, []), rows))).toEqual(['p1', 'a', 'r1', 'picture', 'done'])
})

test('a summary takes the place of whole turns', () => {
  const rows = [...TURN, prompt('again', 'p2')]
  const body = view(rows, [])
  const summary: Body = { ...body, messages: [{ role: 'user', content: 'Summary' }, ...body.messages.slice(-1)] }
  expect(shape(fromView(summary, rows))).toEqual(['Summary', 'p2'])
})

test('a failed call stays a failed call', () => {
  const rows: Row[] = [prompt('read', 'p1'), call('a', 'c1'), { ...result('a', 'no such file', 'r1'), toolResults: [{ tool_use_id: 'a', text: 'no such file', isError: true }] }]
  expect(fromView(view(rows, ['a']), rows)[2]?.toolResults).toEqual([{ tool_use_id: 'a', text: SMALL, isError: true }])
})

test('original results after a resume are detected', () => {
  const rows = fromView(view(TURN, ['a']), TURN)
  const applied = record(TURN, rows, { at: 0, before: 1000, after: 250, what: 'profile agent' })
  expect(isLost(applied, rows)).toBe(false)
  expect(isLost(applied, TURN)).toBe(true)
  expect(isLost(applied, [...TURN, ...rows])).toBe(true)
  expect(sentence(applied)).toBe('1,000 -> 250 tokens (-75 %, profile agent)')
})

test('originals next to their copies are left out', () => {
  const copies = [said('', 't3'), said('I read', 's3'), call('a', 'c3'), result('a', SMALL, 'r3'), said('done', 'd3')]
  const rows = [prompt('read', 'p1'), said('', 't1'), said('', 't3'), said('I read', 's1'), said('I read', 's3'), call('a', 'c1'), call('a', 'c3'), result('a', 'long', 'r1'), ...copies.slice(3)]
  expect(shape(withoutDuplicates(rows))).toEqual(['p1', 't3', 's3', 'c3', 'r3', 'd3'])
  expect(withoutDuplicates(TURN)).toEqual(TURN)
})
