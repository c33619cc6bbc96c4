import * as v from "valibot";

/** The environment of a process, as Node and workerd give it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** One thing wrong with one variable. Never holds the value. */
export interface ConfigFault {
  variable: string;
  message: string;
}

/** All faults of a configuration at once; programs exit with 78 (EX_CONFIG). */
export class ConfigError extends Error {
  readonly faults: readonly ConfigFault[];

  constructor(faults: readonly ConfigFault[]) {
    super(`configuration is invalid:\n${faults.map((fault) => `  ${fault.variable}: ${fault.message}`).join("\n")}`);
    this.name = "ConfigError";
    this.faults = faults;
  }
}

/**
 * Applies the `_FILE` rule: for every name in `names`, `<NAME>_FILE` names a file whose contents replace the value of `<NAME>`
 * (one trailing newline is trimmed; unreadable or empty is a fault; the file wins). A variable set to "" counts as unset, as
 * compose files pass absent ones that way.
 */
export const resolveFiles = (
  env: Environment,
  names: readonly string[],
  readFile: (path: string) => string,
): { env: Environment; faults: ConfigFault[] } => {
  const resolved: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(env)) if (value !== "") resolved[name] = value;
  const faults: ConfigFault[] = [];
  for (const name of names) {
    const path = resolved[`${name}_FILE`];
    if (path === undefined) continue;
    try {
      const value = readFile(path).replace(/\r?\n$/, "");
      if (value === "") faults.push({ variable: `${name}_FILE`, message: "the file is empty" });
      else resolved[name] = value;
    } catch {
      faults.push({ variable: `${name}_FILE`, message: "the file cannot be read" });
    }
  }
  return { env: resolved, faults };
};

/** `true` or `false`, nothing else. */
export const BooleanVariable = v.pipe(
  v.string(),
  v.check((text) => text === "true" || text === "false", "must be true or false"),
  v.transform((text) => text === "true"),
);

/** Integer within bounds. */
export const IntegerVariable = (min: number, max: number = Number.MAX_SAFE_INTEGER) =>
  v.pipe(
    v.string(),
    v.check((text) => /^\d{1,16}$/.test(text), "must be a whole number"),
    v.transform(Number),
    v.check((value) => value >= min && value <= max, `must be between ${min} and ${max}`),
  );

const unitSeconds: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

/** A duration: integer followed by s, m, h or d. Gives seconds. */
export const DurationVariable = (minSeconds = 1) =>
  v.pipe(
    v.string(),
    v.check((text) => /^\d{1,9}[smhd]$/.test(text), "must be a whole number followed by s, m, h or d, for example 30m"),
    v.transform((text) => Number(text.slice(0, -1)) * (unitSeconds[text.slice(-1)] ?? 1)),
    v.check((seconds) => seconds >= minSeconds, `must be at least ${minSeconds}s`),
  );

/**
 * The names of variables with `prefix` that no schema knows, each with the nearest known name when it looks like a typo.
 */
export const unknownVariables = (
  env: Environment,
  prefix: string,
  known: readonly string[],
): { variable: string; nearest?: string }[] =>
  Object.keys(env)
    .filter((name) => name.startsWith(prefix) && !known.includes(name) && env[name] !== undefined)
    .sort()
    .map((variable) => {
      const ranked = known
        .map((name) => ({ name, distance: editDistance(variable, name) }))
        .sort((a, b) => a.distance - b.distance);
      const best = ranked[0];
      return best && best.distance <= 4 ? { variable, nearest: best.name } : { variable };
    });

const editDistance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitution, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
};
