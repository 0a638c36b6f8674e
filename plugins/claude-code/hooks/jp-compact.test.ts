// The hooks, with a process that answers as jp-compact does.

import type { SessionCompactResult, SessionMessage } from 'claude-code'
import { expect, test } from 'claude-code/testing'

const MESSAGES: SessionMessage[] = [
  { role: 'user', text: 'read', toolUses: [], handle: 'p1' },
  { role: 'assistant', text: '', toolUses: [{ tool_use_id: 'a', tool: 'Bash', input: { command: 'cat a' } }], handle: 'c1' },
  { role: 'user', text: '', toolUses: [], toolResults: [{ tool_use_id: 'a', text: 'long text', isError: false }], handle: 'r1' },
]
const OWN: SessionCompactResult = { messages: [{ role: 'user', text: 'a summary', toolUses: [] }] }

function answered(after: number, stdin: string): string {
  const view = JSON.parse(stdin).transcript
  view.messages[2].content[0].content = '[small]'
  return JSON.stringify({ ok: true, view, tokens: { view_before: 1000, view_after: after } })
}

for (const [name, run, expected] of [
  ['a compaction', (stdin: string) => answered(200, stdin), '[small]'],
  ['a small saving', (stdin: string) => answered(990, stdin), undefined],
  ['a failed strategy', () => '{"ok":false,"error":{"message":"the strategy crashed"}}', undefined],
  ['invalid output', () => 'Segmentation fault', undefined],
  ['no output', () => '', undefined],
] as const) {
  test(`${name} is ${expected === undefined ? 'left to Claude Code' : 'answered'}`, async ($, on) => {
    const seen: string[] = []
    on('session.model', () => ({ value: 'm' }))
    on('session.id', () => ({ value: 's' }))
    on('clock.now', () => ({ value: 0 }))
    on('store.set', () => ({ value: undefined }))
    on('ui.status', (_, e) => {
      seen.push(String(e.text))
      return { value: undefined }
    })
    on('ui.toast', () => ({ value: undefined }))
    on('process.run', (_, e) => ({
      value: { exitCode: 0, stdout: run(String(e.init?.stdin)), stderr: '', isStdoutTruncated: false, isStderrTruncated: false },
    }))
    on('session.compact', () => OWN)
    const done = await $.session.compact({ trigger: 'manual', messages: MESSAGES })
    expect(done.messages?.[2]?.toolResults?.[0]?.text ?? undefined).toBe(expected)
    expect(done.messages?.[0]?.text).toBe(expected === undefined ? 'a summary' : 'read')
    expect(seen.length).toBe(1)
  })
}

test('a missing executable is left to Claude Code', async ($, on) => {
  on('session.model', () => ({ value: 'm' }))
  on('ui.status', () => ({ value: undefined }))
  on('ui.toast', () => ({ value: undefined }))
  on('process.run', () => {
    throw new Error('ENOENT')
  })
  on('session.compact', () => OWN)
  expect((await $.session.compact({ trigger: 'auto', messages: MESSAGES })).messages?.[0]?.text).toBe('a summary')
})

test('no compaction is made ahead of time', async ($, on) => {
  on('session.compact', () => OWN)
  expect((await $.session.compact({ trigger: 'precompute', messages: MESSAGES })).skip).toBeDefined()
})

test("a compaction of a sub-agent is answered, and not stored as the session's", async ($, on) => {
  const stored: string[] = []
  on('session.model', () => ({ value: 'm' }))
  on('session.id', () => ({ value: 's' }))
  on('clock.now', () => ({ value: 0 }))
  on('store.set', (_, e) => {
    stored.push(String(e.key))
    return { value: undefined }
  })
  on('ui.status', () => ({ value: undefined }))
  on('process.run', (_, e) => ({
    value: { exitCode: 0, stdout: answered(200, String(e.init?.stdin)), stderr: '', isStdoutTruncated: false, isStderrTruncated: false },
  }))
  on('session.compact', () => OWN)
  for (const agentId of ['agent-1', undefined]) {
    const done = await $.session.compact({ trigger: 'auto', messages: MESSAGES, ...(agentId !== undefined && { agentId }) })
    expect(done.messages?.[2]?.toolResults?.[0]?.text).toBe('[small]')
  }
  expect(stored).toEqual(['applied:s'])
})
