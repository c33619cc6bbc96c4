import { systemClock } from "#kit/clock.ts";
import { mapValues } from "#kit/map-values.ts";
import { mintBridgeToken, type PersonName, people } from "./people.ts";

/** Calls core as a person, with a bridge token minted for the call. Throws unless the response is 2xx. */
export type OperatorApi = <Answer>(
  as: PersonName,
  method: string,
  path: string,
  body?: object,
) => Promise<Answer>;

/** The ids that the people have in a core. */
export type UserIds = Readonly<Record<PersonName, string>>;

/** The ids of people that were seeded and not synced from a directory. */
const seededUserIds: UserIds = mapValues(people, ({ userId }) => userId);

/** Returns a bridge token of a person for an hour, the longest lifetime that core accepts. */
export const bridgeTokenOf = (
  secret: string,
  name: PersonName,
  userIds = seededUserIds,
  now = systemClock.now(),
): Promise<string> => {
  return mintBridgeToken(secret, {
    sub: userIds[name],
    now,
    claims: { exp: Math.floor(now / 1000) + 3600 },
  });
};

/** Creates the operator side of the core at `baseUrl`, whose clock is `now`. */
export const createOperatorApi =
  (baseUrl: string, secret: string, userIds = seededUserIds, now = systemClock.now): OperatorApi =>
  async <Answer>(as: PersonName, method: string, path: string, body?: object) => {
    const response = await fetch(baseUrl + path, {
      method,
      headers: {
        Authorization: `Bearer ${await bridgeTokenOf(secret, as, userIds, now())}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      signal: AbortSignal.timeout(10_000),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok)
      throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
    return JSON.parse(text) as Answer;
  };

/** Creates an enrollment policy and a bootstrap token of it, as an admin does. */
export const createPolicyWithToken = async (
  api: OperatorApi,
  policy: { name: string; allowed_identity_prefixes: readonly string[] },
  token: { ttl_seconds?: number; max_uses?: number } = {},
): Promise<{ policyId: string; token: string }> => {
  const path = "/v1/collector/enrollment-policies";
  const { id } = await api<{ id: string }>("admin", "POST", path, policy);
  const created = await api<{ token: string }>("admin", "POST", `${path}/${id}/tokens`, token);
  return { policyId: id, token: created.token };
};
