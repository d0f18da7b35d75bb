/**
 * The documents that the server sends. Fields that may be absent are optional.
 *
 * @typedef {"free" | "shared" | "in use" | "blocked" | "missing"} DeviceState
 * @typedef {"tainted" | "unhealthy"} Mark
 * @typedef {{driver: string, model: string, memory?: string, slots: number, classes: string[], attributes: Record<string, unknown>}} Shape
 * @typedef {{ready: boolean, cordoned: boolean, labels: Record<string, string>, simulated?: boolean}} FleetNode
 * @typedef {{k: string, o: number, w: number, st: DeviceState, t?: string, h?: string[], u?: string[], m?: Mark[]}} Part
 * @typedef {{n: string, s: string, st: DeviceState, t?: string, f?: number, m?: Mark[], h?: string[], u?: string[], p?: Part[]}} Cell
 * @typedef {{since: string, kind: string, ns: string, name: string, reason: string, short: string, fix: string}} Waiting
 * @typedef {{since: string, reason: string}} Outage since when the API server cannot be followed, and why
 * @typedef {object} State
 * @property {number} seq
 * @property {string} time
 * @property {Record<string, Shape>} shapes
 * @property {Record<string, FleetNode>} nodes
 * @property {Record<string, Cell>} cells
 * @property {Record<string, Waiting>} waiting
 * @property {Record<string, number>} counts
 * @property {string[]} unreadable
 * @property {Outage | null} [outage]
 *
 * @typedef {object} Change
 * @property {number} seq
 * @property {string} time
 * @property {Record<string, Shape | null>} [shapes]
 * @property {Record<string, FleetNode | null>} [nodes]
 * @property {Record<string, Cell | null>} [cells]
 * @property {Record<string, Waiting | null>} [waiting]
 * @property {Record<string, number>} [counts]
 * @property {string[]} [unreadable]
 * @property {Outage | null} [outage]
 *
 * @typedef {object} Session
 * @property {string} user
 * @property {string} csrf
 * @property {boolean} canAct
 * @property {{deletePods: string[], cordon: boolean, taintDevices: boolean}} rights
 * @property {{name: string, version: string}} cluster
 * @property {{since: string | null, gaps?: Gap[]}} history
 *
 * @typedef {{kind: string, ns?: string, name?: string, key?: string}} Target
 * @typedef {{label: string, value: string, link?: Target}} Fact
 * @typedef {{step: string, text: string, state: string, link?: Target}} ChainStep
 * @typedef {{time: string | null, type: string, reason: string, message: string, count: number}} ObjectEvent
 * @typedef {{title: string, kind: string, facts: Fact[], chain: ChainStep[], events: ObjectEvent[], yaml: string}} ObjectPage
 *
 * @typedef {{label: string, left: number, of: number}} FunnelStep
 * @typedef {{text: string, passed: boolean | null}} CheckResult
 * @typedef {{headline: string, text: string, funnel: FunnelStep[], checks: CheckResult[], fix: {text: string, command?: string} | null}} Explanation
 *
 * @typedef {{cells: string[], parts: string[], failing?: number, message?: string}} Matches
 * @typedef {{claim: string, pods: string[], user: string}} Holder
 * @typedef {{time: string, known: boolean, holders: Record<string, Holder[]>, tainted: string[], unhealthy: string[], cells?: Record<string, Partial<Cell>>}} Moment
 * @typedef {[string, string | null]} Gap
 * @typedef {{since: string | null, until: string | null, gaps: Gap[]}} Span
 * @typedef {{device: string, claim: string, pods: string[], user: string, since: string, until: string | null, about?: boolean}} HeldPeriod
 * @typedef {{device?: string, kind: string, key: string, since: string, until: string | null}} MarkPeriod
 * @typedef {{periods: HeldPeriod[], marks: MarkPeriod[], gaps: Gap[]}} DeviceHistory
 * @typedef {{time: string, total: number, held: number, waiting: number | null}} UsagePoint
 * @typedef {{classes: Record<string, UsagePoint[]>, gaps: Gap[]}} Usage
 *
 * @typedef {{class: string, total: number, held: number, free: number, stranded: number, largest: string, fits: number | null, limit: string}} ClassCapacity
 * @typedef {{name: string, ok: boolean, text: string}} Component
 * @typedef {{severity: string, text: string, fix: string, command?: string}} Finding
 * @typedef {{components: Component[], findings: Finding[], versions: Record<string, string>}} Health
 */
export {};
