/** Figures of the hosts of a process since the last `take`, as they pass between processes. */
export interface TakenFigures {
  /** Milliseconds of what succeeded, by kind: `heartbeat`, `connected`, `resumed`, `renew`, `enroll`. */
  took: Record<string, Float64Array>;
  /** Counts of failures by `kind code`. */
  failures: Record<string, number>;
  /** Milliseconds by which heartbeats began late, because this process was busy. */
  late: Float64Array;
}

/** Collects what the hosts of a process do. */
export interface FleetFigures {
  took(kind: string, ms: number): void;
  failed(kind: string, code: string): void;
  late(ms: number): void;
  /** Returns the figures, and starts anew. */
  take(): TakenFigures;
}

/** Creates empty figures. */
export const createFleetFigures = (): FleetFigures => {
  let samples = new Map<string, number[]>();
  let failures = new Map<string, number>();
  let lateness: number[] = [];
  return {
    took(kind, ms) {
      const list = samples.get(kind);
      if (list === undefined) samples.set(kind, [ms]);
      else list.push(ms);
    },
    failed(kind, code) {
      const name = `${kind} ${code}`;
      failures.set(name, (failures.get(name) ?? 0) + 1);
    },
    late: (ms) => void lateness.push(ms),
    take() {
      const taken = {
        took: Object.fromEntries(
          [...samples].map(([kind, list]) => [kind, Float64Array.from(list)]),
        ),
        failures: Object.fromEntries(failures),
        late: Float64Array.from(lateness),
      };
      samples = new Map();
      failures = new Map();
      lateness = [];
      return taken;
    },
  };
};

/** Adds up the figures of several processes, or of one at several times. */
export const mergeFigures = (parts: readonly TakenFigures[]): TakenFigures => {
  const kinds = new Set(parts.flatMap(({ took }) => Object.keys(took)));
  const failures: Record<string, number> = {};
  for (const part of parts)
    for (const [name, count] of Object.entries(part.failures))
      failures[name] = (failures[name] ?? 0) + count;
  const joined = (lists: readonly Float64Array[]) => {
    const all = new Float64Array(lists.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const list of lists) {
      all.set(list, at);
      at += list.length;
    }
    return all;
  };
  return {
    took: Object.fromEntries(
      [...kinds].map((kind) => [kind, joined(parts.flatMap(({ took }) => took[kind] ?? []))]),
    ),
    failures,
    late: joined(parts.map(({ late }) => late)),
  };
};
