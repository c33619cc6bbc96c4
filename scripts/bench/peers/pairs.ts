import { measurePair, type Pair, type SideResult } from "./pair.ts";
import type { PeerName } from "./programs.ts";

/** The parameters of a pair, and where it leaves what must be closed. */
export interface PairContext {
  /** Roughly how long a side works in a round. */
  seconds: number;
  /** Returns the path of a peer's program, or undefined when peers cannot be built. */
  peers(name: PeerName): Promise<string | undefined>;
  /** Disposes of a resource after the pair; returns it. */
  defer<Resource extends AsyncDisposable>(resource: Resource): Resource;
}

/** Prepares the sides of a pair. */
export type OpenPair = (context: PairContext) => Promise<Pair>;

/** The pairs by name, thinnest first; loaded on use. */
export const pairs = {
  spans: async () => (await import("./spans.ts")).openSpans,
  lines: async () => (await import("./lines.ts")).openLines,
  multiline: async () => (await import("./lines.ts")).openMultiline,
  idle: async () => (await import("./idle.ts")).openIdle,
  certificates: async () => (await import("./certificates.ts")).openCertificates,
  heartbeats: async () => (await import("./heartbeats.ts")).openHeartbeats,
  rows: async () => (await import("./rows.ts")).openRows,
} as const satisfies Readonly<Record<string, () => Promise<OpenPair>>>;

/** The name of a pair. */
export type PairName = keyof typeof pairs;

/** The names of all pairs. */
export const pairNames = Object.keys(pairs) as PairName[];

/** Reads a list such as `spans,lines`; throws on an unknown name. */
export const readPairNames = (only: string): PairName[] =>
  only.split(",").map((given) => {
    const name = pairNames.find((known) => known === given);
    if (name === undefined) throw new Error(`no pair is named ${given}: ${pairNames.join(", ")}`);
    return name;
  });

/** Opens a pair and measures its sides; without `peers` only ours and the floor, and nothing is killed. */
export const measureNamed = async (
  name: PairName,
  { seconds, rounds, peers }: { seconds: number; rounds: number; peers?: PairContext["peers"] },
): Promise<Omit<Pair, "sides"> & { results: SideResult[] }> => {
  await using resources = new AsyncDisposableStack();
  const open = await pairs[name]();
  const { sides, ...pair } = await open({
    seconds,
    peers: peers ?? (async () => undefined),
    defer: (resource) => resources.use(resource),
  });
  const measured = peers === undefined ? sides.map(({ kill: _, ...side }) => side) : sides;
  return { ...pair, results: await measurePair({ sides: measured }, rounds) };
};
