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
import { isUuid } from "#proto/values.ts";
import { usageError } from "../terminal/exit-codes.ts";

/** A record that a name may mean. */
interface Candidate {
  id: string;
  names: readonly (string | null)[];
  /** Distinguishes it from others of the same name. */
  description: string;
}

interface Kind {
  /** The plural, which is also the command group. */
  plural: string;
  /** The command that lists its ids and names; by default the group's `list`. */
  list?: string;
  /** Finds the records that may have the name, and possibly others. Without it, records have no names. */
  find?: (client: FleetClient, name: string) => AsyncIterable<Candidate>;
}

/** Characters that core searches for; a longer name begins with them. */
const searchedMax = 120;

/** Returns the name if it is a config's hash, or at least six of its first digits. */
const hashName = (hash: string, name: string): string | null =>
  /^[0-9a-f]{6,64}$/.test(name) && hash.startsWith(name) ? name : null;

type AnyList = Parameters<typeof items>[0];
type ItemOf<List extends AnyList> = NonNullable<Awaited<ReturnType<List>>["data"]>["items"][number];

/** Returns a `find` over the items of a list; `search` names the parameter by which core searches them. */
const findInList = <List extends AnyList>(
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
    plural: "policies",
    find: findInList(listEnrollmentPolicies, "q", ({ id, name, state }) => ({
      id,
      names: [name],
      description: `${name}, ${state}`,
    })),
  },
  token: {
    plural: "tokens",
    find: findInList(
      listAllBootstrapTokens,
      undefined,
      ({ id, token_prefix, description, state }) => ({
        id,
        names: [token_prefix, description],
        description: `${token_prefix} ${description ?? ""}, ${state}`,
      }),
    ),
  },
  host: {
    plural: "hosts",
    list: "fleet list",
    find: findInList(reportFleetHealth, "q", ({ identity_id, identity, device_id, state }) => ({
      id: identity_id,
      names: [identity, device_id],
      description: `${identity}, ${state}`,
    })),
  },
  config: {
    plural: "configs",
    find: findInList(listCollectorConfigs, "q", ({ id, name, config_hash, created_at }, given) => ({
      id,
      names: [name, hashName(config_hash, given)],
      description: `${name ?? ""} ${config_hash.slice(0, 12)}, published ${created_at}`,
    })),
  },
  watch: {
    plural: "watches",
    find: findInList(listWatches, undefined, ({ id, name, state }) => ({
      id,
      names: [name],
      description: `${name}, ${state}`,
    })),
  },
  /** A rollout has the names of its config. */
  rollout: {
    plural: "rollouts",
    find: findInList(listRollouts, undefined, ({ id, config, state, created_at }, given) => ({
      id,
      names: [config.name, hashName(config.config_hash, given)],
      description: `${config.name ?? config.config_hash.slice(0, 12)}, ${state}, created ${created_at}`,
    })),
  },
  certificate: { plural: "certificates", list: "certificates list HOST" },
  session: { plural: "sessions" },
} as const satisfies Record<string, Kind>;

type KindName = keyof typeof kinds;

/** Reports whether records of a kind have ids that a command may name. */
export const isKind = (name: string): name is KindName => name in kinds;

/** Returns the kind of the records of a command group: `session` of `sessions`. */
export const kindOfGroup = (group: string): string =>
  Object.entries(kinds).find(([, { plural }]) => plural === group)?.[0] ?? "";

const candidatesMax = 20;

/**
 * Returns the id of a record by its id or its whole name. If no record or several have the name, ends the command with 2 and lists them, so
 * that a change never hits an unintended record.
 */
export const resolveId = async (
  client: FleetClient,
  kind: KindName,
  given: string,
): Promise<string> => {
  if (isUuid(given.toLowerCase())) return given;
  const { plural, list = `${plural} list`, find }: Kind = kinds[kind];
  const failure = (message: string) => usageError(message);
  if (find === undefined)
    throw failure(`${given} is not the id of a ${kind}: svc-admin ${list} shows them`);
  const candidates = given.trim() === "" ? [] : await Array.fromAsync(find(client, given));
  const found = candidates.filter(({ names }) => names.includes(given));
  const [only, ...others] = found;
  if (only === undefined)
    throw failure(`no ${kind} is named ${given}: svc-admin ${list} shows them`);
  if (others.length === 0) return only.id;
  const shown = found
    .slice(0, candidatesMax)
    .map(({ id, description }) => `  ${id}  ${description}`);
  const rest = found.length > candidatesMax ? [`  and ${found.length - candidatesMax} more`] : [];
  const first = `${found.length} ${plural} are named ${given}: give the id of one`;
  throw failure([first, ...shown, ...rest].join("\n"));
};
