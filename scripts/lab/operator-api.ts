import { systemClock } from "../../kit/clock.ts";
import { mintBridgeToken, type PersonName, people } from "./people.ts";

/** Calls core as a person of the demo, with a bridge token minted for the call. Throws unless the answer is 2xx. */
export type OperatorApi = <Answer>(as: PersonName, method: string, path: string, body?: object) => Promise<Answer>;

/** Who is who to a core: the ids of `people`, where they were seeded and not synced from a directory. */
export type UserIds = Readonly<Record<PersonName, string>>;

const seededUserIds: UserIds = {
  admin: people.admin.userId,
  auditor: people.auditor.userId,
  reader: people.reader.userId,
};

/** Bridge token of a person for an hour, the longest that core takes; web's own live for five minutes. */
export const bridgeTokenOf = (secret: string, name: PersonName, userIds = seededUserIds): Promise<string> => {
  const now = systemClock.now();
  return mintBridgeToken(secret, {
    sub: userIds[name],
    now,
    claims: { exp: Math.floor(now / 1000) + 3600 },
  });
};

/** The operator side of the core at `baseUrl`. */
export const createOperatorApi =
  (baseUrl: string, secret: string, userIds = seededUserIds): OperatorApi =>
  async <Answer>(as: PersonName, method: string, path: string, body?: object) => {
    const response = await fetch(baseUrl + path, {
      method,
      headers: {
        Authorization: `Bearer ${await bridgeTokenOf(secret, as, userIds)}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      signal: AbortSignal.timeout(10_000),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
    return JSON.parse(text) as Answer;
  };
