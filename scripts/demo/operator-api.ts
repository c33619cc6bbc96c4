import { systemClock } from "../../functions/kit/clock.ts";
import { mintBridgeToken, type PersonName, people } from "../../tests/people.ts";

/** Calls core as a person of the demo, with a bridge token minted for the call. Throws unless the answer is 2xx. */
export type OperatorApi = <Answer>(as: PersonName, method: string, path: string, body?: object) => Promise<Answer>;

/** Bridge token of a person for an hour, the longest that core takes; web's own live for five minutes. */
export const bridgeTokenOf = (secret: string, name: PersonName): Promise<string> => {
  const now = systemClock.now();
  return mintBridgeToken(secret, {
    sub: people[name].userId,
    now,
    claims: { exp: Math.floor(now / 1000) + 3600 },
  });
};

/** The operator side of the core at `baseUrl`. */
export const createOperatorApi =
  (baseUrl: string, secret: string): OperatorApi =>
  async <Answer>(as: PersonName, method: string, path: string, body?: object) => {
    const response = await fetch(baseUrl + path, {
      method,
      headers: {
        Authorization: `Bearer ${await bridgeTokenOf(secret, as)}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      signal: AbortSignal.timeout(10_000),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
    return JSON.parse(text) as Answer;
  };
