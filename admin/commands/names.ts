import type { FleetClient } from "#client/connect.ts";
import {
  items,
  listAllBootstrapTokens,
  listCollectorConfigs,
  listEnrollmentPolicies,
  listRollouts,
  listWatches,
  reportFleetHealth,
} from "#client/index.ts";
import { ActionFailure, exitCodes } from "../terminal/exit-codes.ts";

const idPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Whether a text has the form of an id. */
export const isId = (text: string): boolean => idPattern.test(text);

/** A record that a name may mean. */
interface Candidate {
  id: string;
  names: readonly (string | null)[];
  /** Tells it from others of the same name. */
  about: string;
}

interface Kind {
  /** The command group that has it, and the word for several. */
  many: string;
  /** The command that lists its ids and names, unless `list` of many. */
  list?: string;
  /** Finds the records that may have the name; others as well. Without it a record has no name. */
  find?: (client: FleetClient, name: string) => AsyncIterable<Candidate>;
}

/** Characters that core searches for; a longer name begins with them. */
const searchedMax = 120;

/** A config answers to its hash, and to six or more of its first digits. */
const hashNames = (hash: string, name: string): (string | null)[] => [
  /^[0-9a-f]{6,64}$/.test(name) && hash.startsWith(name) ? name : null,
];

type AnyList = Parameters<typeof items>[0];
type ItemOf<List extends AnyList> = NonNullable<Awaited<ReturnType<List>>["data"]>["items"][number];

/** Returns what finds the candidates among the items of a list; `search` says what core looks for. */
const among = <List extends AnyList>(
  list: List,
  search: "q" | undefined,
  candidateOf: (item: ItemOf<List>, name: string) => Candidate,
): NonNullable<Kind["find"]> =>
  async function* (client, name) {
    const query = { limit: 1000, ...(search && { q: name.slice(0, searchedMax) }) };
    for await (const item of items(list, { client, query } as never)) yield candidateOf(item, name);
  };

const kinds = {
  policy: {
    many: "policies",
    find: among(listEnrollmentPolicies, "q", ({ id, name, state }) => ({
      id,
      names: [name],
      about: `${name}, ${state}`,
    })),
  },
  token: {
    many: "tokens",
    find: among(listAllBootstrapTokens, undefined, ({ id, token_prefix, description, state }) => ({
      id,
      names: [token_prefix, description],
      about: `${token_prefix} ${description ?? ""}, ${state}`,
    })),
  },
  host: {
    many: "hosts",
    list: "fleet list",
    find: among(reportFleetHealth, "q", ({ identity_id, identity, device_id, state }) => ({
      id: identity_id,
      names: [identity, device_id],
      about: `${identity}, ${state}`,
    })),
  },
  config: {
    many: "configs",
    find: among(listCollectorConfigs, "q", ({ id, name, config_hash, created_at }, given) => ({
      id,
      names: [name, ...hashNames(config_hash, given)],
      about: `${name ?? ""} ${config_hash.slice(0, 12)}, published ${created_at}`,
    })),
  },
  watch: {
    many: "watches",
    find: among(listWatches, undefined, ({ id, name, state }) => ({
      id,
      names: [name],
      about: `${name}, ${state}`,
    })),
  },
  /** Named by its config. */
  rollout: {
    many: "rollouts",
    find: among(listRollouts, undefined, ({ id, config, state, created_at }, given) => ({
      id,
      names: [config.name, ...hashNames(config.config_hash, given)],
      about: `${config.name ?? config.config_hash.slice(0, 12)}, ${state}, created ${created_at}`,
    })),
  },
  certificate: { many: "certificates", list: "certificates list HOST" },
  session: { many: "sessions" },
} as const satisfies Record<string, Kind>;

type KindName = keyof typeof kinds;

/** Whether records of a kind have ids that a command may name. */
export const isKind = (name: string): name is KindName => name in kinds;

/** Returns the kind of the records of a command group: `session` of `sessions`. */
export const kindOfGroup = (group: string): string =>
  Object.entries(kinds).find(([, { many }]) => many === group)?.[0] ?? "";

const candidatesMax = 20;

/**
 * Returns the id of a record by its id or its whole name. Ends the command with 2 where no record has the name, or several: it lists them, so
 * that a change never hits another record than the one that is meant.
 */
export const resolveId = async (
  client: FleetClient,
  kind: KindName,
  given: string,
): Promise<string> => {
  if (isId(given)) return given;
  const { many, list = `${many} list`, find }: Kind = kinds[kind];
  const end = (what: string) => new ActionFailure(exitCodes.usage, what);
  if (find === undefined)
    throw end(`${given} is not the id of a ${kind}: svc-admin ${list} shows them`);
  const candidates = given.trim() === "" ? [] : await Array.fromAsync(find(client, given));
  const found = candidates.filter(({ names }) => names.includes(given));
  const [only, ...others] = found;
  if (only === undefined) throw end(`no ${kind} is named ${given}: svc-admin ${list} shows them`);
  if (others.length === 0) return only.id;
  const shown = found.slice(0, candidatesMax).map(({ id, about }) => `  ${id}  ${about}`);
  const rest = found.length > candidatesMax ? [`  and ${found.length - candidatesMax} more`] : [];
  const first = `${found.length} ${many} are named ${given}: give the id of one`;
  throw end([first, ...shown, ...rest].join("\n"));
};
