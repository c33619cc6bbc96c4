import { distance } from "fastest-levenshtein";
import * as v from "valibot";
import type { Secret } from "./secret.ts";

/** The environment of a process, in Node and workerd. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** One fault of one variable. Never contains the value. */
export interface ConfigFault {
  variable: string;
  message: string;
}

/** All faults of a configuration at once; programs exit with 78 (EX_CONFIG). */
export class ConfigError extends Error {
  readonly faults: readonly ConfigFault[];

  constructor(faults: readonly ConfigFault[]) {
    super(
      `configuration is invalid:\n${faults.map((fault) => `  ${fault.variable}: ${fault.message}`).join("\n")}`,
    );
    this.name = "ConfigError";
    this.faults = faults;
  }
}

/** Returns the error of one variable. */
export const variableFault = (variable: string, message: string): ConfigError =>
  new ConfigError([{ variable, message }]);

/** Reports that a file may not be used as it is. The message says what to change, and quotes nothing. */
export class GuardedFileError extends Error {
  override readonly name = "GuardedFileError";
}

/** Returns the marks of a variable: `fileForm` and `readOnce` of kit/variables.ts. */
export const marksOf = (
  schema: v.ObjectEntries[string] | undefined,
): { hasFileForm?: true; readOnce?: string } => {
  const whole = schema && "wrapped" in schema ? (schema.wrapped as v.GenericSchema) : schema;
  return whole === undefined ? {} : v.getMetadata(whole);
};

/** Returns the variables whose value may come from the file that `<NAME>_FILE` names. */
export const fileFormsOf = (variables: v.ObjectEntries): string[] =>
  Object.keys(variables).filter((name) => marksOf(variables[name]).hasFileForm);

/** Returns the names of these variables, with those of their files. */
export const namesOf = (variables: v.ObjectEntries): string[] => [
  ...Object.keys(variables),
  ...fileFormsOf(variables).map((name) => `${name}_FILE`),
];

/** Adds a fault unless a variable is set, or its own fault is known. */
export const requireVariable = (
  env: Environment,
  faults: ConfigFault[],
  variable: string,
  message: string,
): void => {
  const names = [variable, `${variable}_FILE`];
  if (!env[variable] && !faults.some((fault) => names.includes(fault.variable)))
    faults.push({ variable, message });
};

/** Adds a fault for each of `needed` that is not set while `variable` is. */
export const requireWith = (
  env: Environment,
  faults: ConfigFault[],
  variable: string,
  ...needed: readonly string[]
): void => {
  if (!env[variable]) return;
  for (const name of needed)
    requireVariable(env, faults, name, `is required when ${variable} is set`);
};

/**
 * Applies the `_FILE` rule: for every name in `names`, the content of the file that `<NAME>_FILE` names replaces the value of `<NAME>`, without
 * one trailing newline. An unreadable or empty file is a fault. A variable set to "" counts as unset, because compose files pass absent ones
 * that way.
 */
const resolveFiles = (
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
    } catch (error) {
      const message = error instanceof GuardedFileError ? error.message : "the file cannot be read";
      faults.push({ variable: `${name}_FILE`, message });
    }
  }
  return { env: resolved, faults };
};

/** Returns the variables that are set, each with the path of the file that it names or comes from; null for a value. */
const sourcesOf = (
  env: Environment,
  variables: v.ObjectEntries,
): ReadonlyMap<string, string | null> =>
  new Map(
    Object.keys(variables).flatMap((name): [string, string | null][] => {
      const { [name]: value, [`${name}_FILE`]: path } = env;
      if (path) return [[name, path]];
      return value ? [[name, /_(FILE|PATH)$/.test(name) ? value : null]] : [];
    }),
  );

/** The values of variables, by their schemas. */
export type ValuesOf<Variables extends v.ObjectEntries> = v.InferOutput<
  v.ObjectSchema<Variables, undefined>
>;

/** The file of a variable, which may change while the program runs. */
export interface VariableFile {
  /** The variable that names it, as `SVC_DATABASE_URL_FILE`. */
  variable: string;
  path: string;
  /** The value of the configuration. */
  secret: Secret<unknown>;
  /** Reads the value again. Throws a `ConfigError` that quotes nothing, also for an empty file. */
  read(): Secret<unknown>;
}

/**
 * Parses the variables of one program: applies the `_FILE` rule, then the schema of each variable. Returns every fault, and `values` if each
 * schema accepts, with the `files` that they come from, except those that are read once, and the `sources` of all; a fault in a file's content
 * names the variable of the file. The caller checks the rules between variables, and throws.
 */
export const parseVariables = <Variables extends v.ObjectEntries>(
  env: Environment,
  { variables, readFile }: { variables: Variables; readFile: (path: string) => string },
): {
  env: Environment;
  faults: ConfigFault[];
  values: ValuesOf<Variables> | undefined;
  files: readonly VariableFile[];
  sources: ReadonlyMap<string, string | null>;
} => {
  const fileForms = fileFormsOf(variables);
  const { env: resolved, faults } = resolveFiles(env, fileForms, readFile);
  const parsed = v.safeParse(v.object(variables), resolved, { abortPipeEarly: true });
  for (const issue of parsed.issues ?? []) {
    const variable = v.getDotPath(issue) ?? "";
    const fileForm = `${variable}_FILE`;
    if (faults.some((fault) => fault.variable === fileForm)) continue;
    const isOfFile = fileForms.includes(variable) && Boolean(env[fileForm]);
    const message = resolved[variable] === undefined ? "is required" : issue.message;
    faults.push({ variable: isOfFile ? fileForm : variable, message });
  }
  const values = parsed.success ? parsed.output : undefined;
  const files = fileForms.flatMap((name): VariableFile[] => {
    const path = env[`${name}_FILE`];
    const schema = variables[name];
    if (!path || !values || !schema || marksOf(schema).readOnce) return [];
    const read = () => readVariableFile(name, schema, path, readFile);
    const secret = (values as Record<string, Secret<unknown>>)[name] as Secret<unknown>;
    return [{ variable: `${name}_FILE`, path, secret, read }];
  });
  return { env: resolved, faults, values, files, sources: sourcesOf(env, variables) };
};

const readVariableFile = (
  name: string,
  schema: v.ObjectEntries[string],
  path: string,
  readFile: (path: string) => string,
): Secret<unknown> => {
  const { faults, values } = parseVariables(
    { [`${name}_FILE`]: path },
    { variables: { [name]: schema }, readFile },
  );
  if (values === undefined || faults.length > 0) throw new ConfigError(faults);
  return values[name] as Secret<unknown>;
};

/** Variables of compose.yaml and compose.lab.yaml, in an env file that they pass to every program. */
export const composeVariables: readonly string[] = [
  "SVC_ENV_FILE",
  "SVC_SECRETS_DIR",
  "SVC_CORE_IMAGE",
  "SVC_WEB_IMAGE",
  "SVC_COLLECTOR_IMAGE",
  "SVC_LAB_IMAGE",
  "SVC_POSTGRES_IMAGE",
  "SVC_CORE_PORT",
  "SVC_INGEST_PORT",
  "SVC_WEB_PORT",
  "SVC_IDP_PORT",
  "SVC_EDGE_PORT",
];

/** Returns a warning for each variable that has a value and a file. */
export const warnOfShadowed = (env: Environment, variables: v.ObjectEntries): string[] =>
  fileFormsOf(variables)
    .filter((name) => env[name] && env[`${name}_FILE`])
    .map((name) => `${name} has no effect: ${name}_FILE is set, and wins`);

/** Returns a warning for each variable with `prefix` that is not `known`; names the nearest known one if it looks like a typo. */
export const warnOfUnknown = (
  env: Environment,
  prefix: string,
  known: readonly string[],
): string[] =>
  Object.keys(env)
    .filter((name) => name.startsWith(prefix) && !known.includes(name) && env[name] !== undefined)
    .sort()
    .map((variable) => {
      const ranked = known
        .map((name) => ({ name, distance: distance(variable, name) }))
        .sort((a, b) => a.distance - b.distance);
      const best = ranked[0];
      return best && best.distance <= 4
        ? `${variable} is not known; did you mean ${best.name}?`
        : `${variable} is not known`;
    });
