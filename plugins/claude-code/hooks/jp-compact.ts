// Answers compactions of Claude Code with the strategies of jp-compact.
//
// One process of jp-compact reads the messages from stdin and answers in about 0.1 s. It changes no transcript.
//
// This module must never throw. If jp-compact fails or saves too little, Claude Code's own compaction runs (`next`).
// A compaction that this module started itself may save nothing. It is skipped if jp-compact fails.

import type { Register } from 'claude-code'

import { isLost, record, sentence } from './applied'
import type { Applied } from './applied'
import { fromView, toBody, withoutDuplicates } from './rows'
import type { Body, Row } from './rows'

type Options = {
  executable?: string
  profile?: string
  strategies?: string | string[]
  minimum_saving?: number
  timeout_seconds?: number
}
type Answer = {
  ok: boolean
  view?: Body
  tokens?: { view_before: number; view_after: number }
  error?: { message?: string }
  nothing?: string | null
  declines?: { strategy: string; reason: string }[]
}

const NAME = 'jp-compact'
/** The time after which a resumed session has its messages. */
const LOADED_MS = 500
const COMMANDS = ['fork', 'diff', 'undo', 'stats']

function strategiesOf(options: Options): string[] {
  const list = options.strategies ?? []
  return (Array.isArray(list) ? list : [list]).map(name => name.trim()).filter(name => name !== '')
}

export function what(options: Options): string {
  const names = strategiesOf(options)
  return names.length > 0 ? names.join(', ') : `profile ${options.profile || 'agent'}`
}

export function argumentsOf(options: Options, focus: string | undefined): string[] {
  const names = strategiesOf(options)
  const run = names.length > 0 ? names.flatMap(name => ['--strategy', name]) : ['--profile', options.profile || 'agent']
  const words = focus === undefined || focus.trim() === '' ? [] : ['--focus', focus.trim()]
  return [options.executable || NAME, '--quiet', 'batch', '--ndjson', '--view', ...run, ...words]
}

/** Returns the answer of jp-compact, or the reason why it cannot be used. */
export function readAnswer(stdout: string, stderr: string, minimum: number): Answer | string {
  let answer: Answer
  try {
    answer = JSON.parse(stdout.split('\n')[0] ?? '')
  } catch {
    return stderr.trim().split('\n')[0] || 'no answer'
  }
  if (!answer.ok) {
    return answer.error?.message ?? 'the strategies failed'
  }
  const { tokens, view } = answer
  if (tokens === undefined || view === undefined) {
    return 'an answer without a view'
  }
  const saved = 100 * (1 - tokens.view_after / Math.max(tokens.view_before, 1))
  if (saved < minimum) {
    const reason = answer.nothing ?? answer.declines?.[0]?.reason ?? 'little to remove'
    return `saves ${saved.toFixed(0)} %, less than ${minimum} % (${reason})`
  }
  return answer
}

function reasonOf(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n')[0] ?? ''
}

export const register: Register = (on, config) => {
  const options = (config ?? {}) as Options
  // Whether this module started the compaction. Such a compaction never asks the model.
  let isRepeated = false

  on('session.compact', async ($, e, next) => {
    // Claude Code prepares compactions ahead of time, because its own are slow. This one is fast, so it is made on demand.
    if (e.trigger === 'precompute') {
      return { skip: `${NAME} compacts when it is needed` }
    }
    let reason: string
    try {
      const rows = withoutDuplicates(e.messages as readonly Row[])
      const model = String(await $.session.model())
      const done = await $.process.run(argumentsOf(options, e.instructions), {
        stdin: `${JSON.stringify({ id: e.agentId ?? 'main', format: 'anthropic', transcript: toBody(rows, model) })}\n`,
        timeoutMs: 1000 * (options.timeout_seconds ?? 20),
      })
      const answer = readAnswer(done.stdout, done.stderr, isRepeated ? -Infinity : (options.minimum_saving ?? 20))
      if (typeof answer !== 'string' && answer.view !== undefined && answer.tokens !== undefined) {
        const messages = fromView(answer.view, rows)
        const { view_before: before, view_after: after } = answer.tokens
        const applied = record(rows, messages, { at: await $.clock.now(), before, after, what: what(options) })
        $.ui.status(sentence(applied))
        if (e.agentId === undefined) {
          await $.store.set(`applied:${await $.session.id()}`, applied).catch(() => undefined)
        }
        await $.env.set('JP_COMPACT_ANSWERED', '1').catch(() => undefined)
        return { messages: messages as unknown as typeof e.messages, tokensBefore: before, tokensAfter: after }
      }
      reason = String(answer)
    } catch (error) {
      reason = reasonOf(error)
    }
    $.ui.status(reason)
    if (isRepeated) {
      return { skip: reason }
    }
    $.ui.toast(`${reason}. The compaction of Claude Code runs.`)
    await $.env.set('JP_COMPACT_ANSWERED', '').catch(() => undefined)
    return next(e)
  }).catch(($, e, next) => next(e))

  // A resumed session: shows what was saved. If Claude Code shows the original results again, compacts once more, as soon as
  // the messages are loaded. Without a terminal, Claude Code refuses a compaction outside of a turn.
  on('session.start', async ($, e, next) => {
    const started = await next(e)
    try {
      // Command hooks and commands read this variable, because they run with or without this module.
      await $.env.set('JP_COMPACT_FUNCTION_HOOKS', '1')
      const applied = (await $.store.get(`applied:${await $.session.id()}`)) as Applied | undefined
      if (applied !== undefined) {
        $.ui.status(sentence(applied))
      }
      if (applied !== undefined && e.isInteractive) {
        $.clock.after(LOADED_MS, async () => {
          const rows = await $.session.messages({}).catch(() => [])
          if (isLost(applied, rows as readonly Row[])) {
            // Sent as the user's command, because the hook is not called for a compaction by its own plugin.
            isRepeated = true
            await $.command.run({ command: 'compact' }).catch(() => undefined)
            isRepeated = false
          }
        })
      }
    } catch (error) {
      $.ui.status(reasonOf(error))
    }
    return started
  })

  // The commands in `commands/`, answered without the model.
  on('command.run', async ($, e, next) => {
    const command = COMMANDS.find(name => e.command === `${NAME}:${name}`)
    const { transcriptPath } = await $.session.info()
    if (command === undefined || transcriptPath === '') {
      return next(e)
    }
    const applied = (await $.store.get(`applied:${await $.session.id()}`)) as Applied | undefined
    const script = `${$.plugin.root}/hooks/command.sh`
    const done = await $.process.run(['sh', script, command, transcriptPath, options.executable || NAME, options.profile || 'agent'], {
      timeoutMs: 60_000,
    })
    const saved = applied !== undefined && command === 'stats' ? [`Last compaction: ${sentence(applied)}`] : []
    return { text: [done.stdout.trim(), done.stderr.trim(), ...saved].filter(text => text !== '').join('\n') }
  }).catch(($, e, next) => next(e))
}
