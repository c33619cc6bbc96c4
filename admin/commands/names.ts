import type { FleetClient } from "../../client/connect.ts";
import {
  items,
  listAllBootstrapTokens,
  listCollectorConfigs,
  listEnrollmentPolicies,
  listRollouts,
  listWatches,
  reportFleetHealth,
} from "../../client/index.ts";
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
  many: string;
  /** The command that lists its ids and names, unless `list` of many. */
  list?: string;
  /** Finds the records that may have the name; others as well. */
  find(client: FleetClient, name: string): Promise<Candidate[]>;
}

/** Characters that core searches for; a longer name begins with them. */
const searchedMax = 120;

/** A config answers to its hash, and to six or more of its first digits. */
const hashNames = (hash: string, name: string): (string | null)[] => [
  /^[0-9a-f]{6,64}$/.test(name) && hash.startsWith(name) ? name : null,
];

const kinds = {
  policy: {
    many: "policies",
    find: (client, name) =>
      Array.fromAsync(
        items(listEnrollmentPolicies, {
          client,
          query: { q: name.slice(0, searchedMax), limit: 1000 },
        }),
        (policy) => ({
          id: policy.id,
          names: [policy.name],
          about: `${policy.name}, ${policy.state}`,
        }),
      ),
  },
  token: {
    many: "tokens",
    find: (client) =>
      Array.fromAsync(
        items(listAllBootstrapTokens, { client, query: { limit: 1000 } }),
        (token) => ({
          id: token.id,
          names: [token.token_prefix, token.description],
          about: `${token.token_prefix} ${token.description ?? ""}, ${token.state}`,
        }),
      ),
  },
  host: {
    many: "hosts",
    list: "fleet list",
    find: (client, name) =>
      Array.fromAsync(
        items(reportFleetHealth, {
          client,
          query: { q: [name.slice(0, searchedMax)], limit: 1000 },
        }),
        (host) => ({
          id: host.identity_id,
          names: [host.identity, host.device_id],
          about: `${host.identity}, ${host.state}`,
        }),
      ),
  },
  config: {
    many: "configs",
    find: (client, name) =>
      Array.fromAsync(
        items(listCollectorConfigs, {
          client,
          query: { q: name.slice(0, searchedMax), limit: 1000 },
        }),
        (config) => ({
          id: config.id,
          names: [config.name, ...hashNames(config.config_hash, name)],
          about: `${config.name ?? ""} ${config.config_hash.slice(0, 12)}, published ${config.created_at}`,
        }),
      ),
  },
  watch: {
    many: "watches",
    find: (client) =>
      Array.fromAsync(
        items(listWatches, { client, query: { limit: 1000 } }),
        ({ id, name, state }) => ({
          id,
          names: [name],
          about: `${name}, ${state}`,
        }),
      ),
  },
  /** Named by its config. */
  rollout: {
    many: "rollouts",
    find: (client, name) =>
      Array.fromAsync(
        items(listRollouts, { client, query: { limit: 1000 } }),
        ({ id, config, state, created_at: at }) => ({
          id,
          names: [config.name, ...hashNames(config.config_hash, name)],
          about: `${config.name ?? config.config_hash.slice(0, 12)}, ${state}, created ${at}`,
        }),
      ),
  },
} as const satisfies Record<string, Kind>;

const candidatesMax = 20;

/**
 * Returns the id of a record by its id or its whole name. Ends the command with 2 where no record has the name, or several: it lists them, so
 * that a change never hits another record than the one that is meant.
 */
export const resolveId = async (
  client: FleetClient,
  kind: keyof typeof kinds,
  given: string,
): Promise<string> => {
  if (isId(given)) return given;
  const { many, list = `${many} list`, find }: Kind = kinds[kind];
  const found =
    given.trim() === ""
      ? []
      : (await find(client, given)).filter(({ names }) => names.includes(given));
  const [only, ...others] = found;
  if (only !== undefined && others.length === 0) return only.id;
  if (only === undefined)
    throw new ActionFailure(
      exitCodes.usage,
      `no ${kind} is named ${given}: svc-admin ${list} shows them`,
    );
  const shown = found.slice(0, candidatesMax).map(({ id, about }) => `  ${id}  ${about}`);
  const rest = found.length > candidatesMax ? [`  and ${found.length - candidatesMax} more`] : [];
  const candidates = [
    `${found.length} ${many} are named ${given}: give the id of one`,
    ...shown,
    ...rest,
  ];
  throw new ActionFailure(exitCodes.usage, candidates.join("\n"));
};

/** Returns an id of a record that has no name. Ends the command with 2 for other text. */
export const requireId = (given: string, { one, list }: { one: string; list: string }): string => {
  if (isId(given)) return given;
  throw new ActionFailure(
    exitCodes.usage,
    `${given} is not the id of a ${one}: svc-admin ${list} shows them`,
  );
};
