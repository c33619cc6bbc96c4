import { readdirSync } from "node:fs";
import { join, normalize, sep } from "node:path";
import * as v from "valibot";
import { AppliedSetName } from "#proto/applied-set/applied-set.ts";
import { textErrorOf, validateCollectorConfig } from "#proto/collector-config/parse.ts";
import {
  anyTokens,
  configBytesMax,
  hashTree,
  type ParsedTree,
  parseTree,
  type Tree,
  type TreePath,
} from "#proto/collector-config/tree.ts";
import { InventoryHost } from "#proto/inventory/inventory.ts";
import { PolicyDraftBody } from "#proto/operator/policy-draft.ts";
import { checkOtelcolConfig } from "#proto/otelcol-config/check.ts";
import { type AgentKind, agentKinds, Flag, Identifier } from "#proto/values.ts";
import { WatchBody } from "#proto/watch/watch.ts";
import { refusalError } from "../terminal/exit-codes.ts";
import { readUtf8 } from "../terminal/token-file.ts";

/** A fault in a file: its position, and what to do; never a value of the file. `line` is unknown in JSON above 256 KiB. */
export interface FileFault {
  file: string;
  path: string;
  message: string;
  line?: number;
  column?: number;
}

/** An object of a file. */
export interface Defined<Item> {
  item: Item;
  /** Returns a fault at a path of the object. */
  fault(path: TreePath, message: string): FileFault;
}

const text = v.string("must be text");

const list = <Item extends v.GenericSchema>(item: Item) =>
  v.optional(v.array(item, "must be a list"), []);

/** One file: each list is joined with those of the other files. */
const DefinitionFile = v.strictObject({
  set: v.optional(AppliedSetName),
  configs: list(
    v.strictObject({
      name: Identifier(120),
      file: text,
      kind: v.optional(
        v.picklist(agentKinds, `must be one of ${agentKinds.join(", ")}`),
        "svc-collector",
      ),
    }),
  ),
  policies: list(
    v.strictObject({
      ...PolicyDraftBody.entries,
      frozen: v.optional(Flag, false),
    }),
  ),
  watches: list(WatchBody),
  assignments: list(
    v.strictObject({
      config: Identifier(120),
      query: v.optional(text),
      all: v.optional(v.literal(true, "must be true")),
    }),
  ),
  inventory: v.optional(v.array(InventoryHost, "must be a list of hosts")),
});

type DefinitionFile = v.InferOutput<typeof DefinitionFile>;
type ItemOf<Key extends Exclude<keyof DefinitionFile, "set">> = NonNullable<
  DefinitionFile[Key]
>[number];

/** A config to publish, its text as it is in its file. */
interface DefinedConfig {
  name: string;
  /** The kind of agents that it is for. */
  kind: AgentKind;
  file: string;
  yaml: string;
  hash: string;
}

/** The objects of all files of a directory. */
export interface Definitions {
  set: string;
  configs: Defined<DefinedConfig>[];
  policies: Defined<DefinitionFile["policies"][number]>[];
  watches: Defined<WatchBody>[];
  assignments: Defined<DefinitionFile["assignments"][number]>[];
  /** The expected hosts; undefined if no file has `inventory`. */
  hosts: InventoryHost[] | undefined;
}

/** Ends the command if there are faults, with a line for each. Nothing was changed then. */
export const refuseFaults = (faults: readonly FileFault[]): void => {
  if (faults.length === 0) return;
  const lines = faults.slice(0, 50).map(({ file, path, message, line, column }) => {
    const position = [file, line, column].filter((each) => each !== undefined).join(":");
    return `  ${position}: ${path === "" ? "" : `${path} `}${message}`;
  });
  const more = faults.length > lines.length ? [`  and ${faults.length - lines.length} more`] : [];
  throw refusalError(
    ["the files are not valid, and nothing was changed", ...lines, ...more].join("\n"),
  );
};

/** Reads the files of a directory. Ends the command with every fault that needs no comparison with core. */
export const readDefinitions = async (dir: string): Promise<Definitions> => {
  const files = namesIn(dir).map((file) => ({ file, ...readDefinitionFile(dir, file) }));
  const faults = files.flatMap(({ faults: own }) => own);
  const joined = <Key extends Exclude<keyof DefinitionFile, "set">>(key: Key) =>
    files.flatMap(({ content, faultAt }) => {
      const list: readonly ItemOf<Key>[] = content?.[key] ?? [];
      return list.map(
        (item, index): Defined<ItemOf<Key>> => ({
          item,
          fault: (path, message) => faultAt([key, index, ...path], message),
        }),
      );
    });
  const configs = await readConfigs(dir, joined("configs"), faults);
  const hosts = joined("inventory");
  const definitions = {
    set: setOf(dir, files, faults),
    configs,
    policies: joined("policies"),
    watches: joined("watches"),
    assignments: joined("assignments"),
    hosts: files.some(({ content }) => content?.inventory)
      ? hosts.map(({ item }) => item)
      : undefined,
  };
  for (const named of [configs, definitions.policies, definitions.watches, hosts])
    refuseRepeated(named, faults);
  refuseFaults(faults);
  return definitions;
};

const namesIn = (dir: string): string[] => {
  try {
    // A name that begins with a dot is another program's, such as .gitlab-ci.yml.
    const names = readdirSync(dir, { withFileTypes: true }).filter(
      (entry) => !entry.isDirectory() && /^[^.].*\.(ya?ml|json)$/.test(entry.name),
    );
    if (names.length > 0) return names.map(({ name }) => name).toSorted();
  } catch (cause) {
    throw refusalError(`${dir} cannot be read: name a directory`, {
      cause,
    });
  }
  throw refusalError(`${dir} has no file whose name ends in .yaml, .yml or .json`);
};

interface ReadFile {
  content?: DefinitionFile;
  faultAt: Defined<unknown>["fault"];
  faults: FileFault[];
}

const readDefinitionFile = (dir: string, file: string): ReadFile => {
  const unread = (own: FileFault[]): ReadFile => ({
    faults: own,
    faultAt: (path, message) => ({ file, path: path.join("."), message }),
  });
  const { text: given, fault } = readText(dir, file);
  if (given === undefined) return unread([{ file, path: "", message: fault }]);
  const parsed =
    file.endsWith(".json") && Buffer.byteLength(given) > configBytesMax
      ? parseLargeJson(given)
      : parseTree(given, anyTokens);
  if (!parsed.ok) return unread(parsed.errors.map((error) => ({ file, ...error })));
  const faultAt = (path: TreePath, message: string): FileFault => ({
    file,
    ...parsed.errorAt(path, message),
  });
  // The tree is null for an empty file, and for one with only comments.
  const result = v.safeParse(DefinitionFile, parsed.tree ?? {}, { abortPipeEarly: true });
  if (result.success) return { content: result.output, faultAt, faults: [] };
  return {
    faultAt,
    faults: result.issues.map((issue) => ({ file, ...withRemedy(textErrorOf(issue, parsed)) })),
  };
};

const withRemedy = <Fault extends { path: string; message: string }>(fault: Fault): Fault => {
  if (fault.message !== "is not a known key" || fault.path.includes(".")) return fault;
  const known = Object.keys(DefinitionFile.entries).join(", ");
  return {
    ...fault,
    message: `${fault.message}: they are ${known}; a collector's config is in a folder, and named under configs`,
  };
};

const readText = (
  dir: string,
  file: string,
): { text: string; fault?: never } | { text?: never; fault: string } => {
  try {
    return { text: readUtf8(join(dir, file)) };
  } catch (error) {
    return { fault: error instanceof TypeError ? "is not UTF-8 text" : "cannot be read" };
  }
};

/** Parses JSON without positions: a YAML parser takes minutes for an inventory of 200,000 hosts. */
const parseLargeJson = (
  given: string,
): ParsedTree | { ok: false; errors: { path: string; message: string }[] } => {
  const errorAt = (path: TreePath, message: string) => ({ path: path.join("."), message });
  try {
    return { ok: true, tree: JSON.parse(given) as Tree, errorAt: errorAt as ParsedTree["errorAt"] };
  } catch {
    return { ok: false, errors: [errorAt([], "is not well-formed JSON")] };
  }
};

const setOf = (
  dir: string,
  files: readonly ({ file: string } & ReadFile)[],
  faults: FileFault[],
) => {
  const [first, ...others] = files.filter(({ content }) => content?.set !== undefined);
  faults.push(
    ...others.map(({ faultAt }) => faultAt(["set"], `is in ${first?.file} too: name the set once`)),
  );
  if (first === undefined && faults.length === 0) {
    const message =
      "must be in one of the files, such as set: production, and tells its objects from those of other repositories";
    faults.push({ file: dir, path: "set", message });
  }
  return first?.content?.set ?? "";
};

const readConfigs = async (
  dir: string,
  entries: readonly Defined<ItemOf<"configs">>[],
  faults: FileFault[],
): Promise<Defined<DefinedConfig>[]> => {
  const read = await Promise.all(
    entries.map(async ({ item, fault }) => {
      const path = normalize(item.file);
      const isInside = !path.startsWith("..") && !path.startsWith(sep);
      const { text: yaml, fault: unread } = isInside
        ? readText(dir, path)
        : { fault: "must be a file below the directory" };
      if (yaml === undefined) {
        faults.push(fault(["file"], unread));
        return [];
      }
      const tree = parseTree(yaml);
      faults.push(...errorsOf(item.kind, tree).map((error) => ({ file: item.file, ...error })));
      return [{ item: { ...item, yaml, hash: (await hashTree(tree)) ?? "" }, fault }];
    }),
  );
  return read.flat();
};

const errorsOf = (kind: AgentKind, tree: ReturnType<typeof parseTree>) => {
  if (kind === "otelcol") return tree.ok ? checkOtelcolConfig(tree).errors : tree.errors;
  const parsed = validateCollectorConfig(tree);
  return parsed.ok ? [] : parsed.errors;
};

const refuseRepeated = (named: readonly Defined<{ name: string }>[], faults: FileFault[]) => {
  const seen = new Set<string>();
  for (const { item, fault } of named) {
    if (seen.has(item.name))
      faults.push(fault(["name"], "is the name of another one: give each its own"));
    seen.add(item.name);
  }
};
