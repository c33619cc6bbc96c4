import { generateToken } from "#functions/domain/enrollment/bootstrap-token.ts";
import { systemClock } from "#kit/clock.ts";
import { fraction, systemEntropy } from "#kit/entropy.ts";
import { createPolicyWithToken } from "#scripts/lab/operator-api.ts";
import { identityPrefix } from "#tests/support/collector.ts";
import { type Attack, upTo } from "./attack.ts";
import { type Answer, createCaller, createCandidate, nameOf, tally } from "./caller.ts";

const addresses = 100;
/** Of each kind; with four kinds below the ten failures after which an address is throttled. */
const usesOfAddress = 2;

/** Presents unusable tokens of each kind, in random order, and compares the times of the responses. */
export const attackTiming: Attack = async (core) => {
  const create = (token: object) =>
    createPolicyWithToken(
      core.api,
      { name: crypto.randomUUID(), allowed_identity_prefixes: [identityPrefix] },
      token,
    );
  const expired = await create({ ttl_seconds: 1, max_uses: 0 });
  const exhausted = await create({ max_uses: 1 });
  const revoked = await create({ max_uses: 0 });
  const holder = createCaller(core, "127.0.4.1");
  await holder.enroll(await createCandidate(), exhausted.token);
  holder.close();
  const [{ id: revokedId } = { id: "" }] = await core.sql<{ id: string }[]>`
    select id from bootstrap_token where policy_id = ${revoked.policyId}`;
  await core.api("admin", "POST", `/v1/collector/tokens/${revokedId}/revoke`);
  await systemClock.sleep(1_100);
  const tokens: Readonly<Record<string, () => string>> = {
    unknown: () => generateToken(systemEntropy),
    expired: () => expired.token,
    exhausted: () => exhausted.token,
    revoked: () => revoked.token,
  };
  const kinds = Object.keys(tokens);
  const times = new Map(kinds.map((kind): [string, number[]] => [kind, []]));
  const answers: Answer[] = [];
  const bodies = new Set<string>();
  const candidate = await createCandidate();
  for (const at of upTo(addresses)) {
    const caller = createCaller(core, `127.0.5.${at + 1}`);
    const order = upTo(usesOfAddress * kinds.length)
      .map((use) => ({ kind: kinds[use % kinds.length] ?? "", rank: fraction(systemEntropy) }))
      .sort((a, b) => a.rank - b.rank);
    for (const { kind } of order) {
      const token = tokens[kind]?.() ?? "";
      const startedAt = performance.now();
      const answer = await caller.enroll(candidate, token);
      times.get(kind)?.push(performance.now() - startedAt);
      answers.push(answer);
      bodies.add(JSON.stringify({ ...answer.body, request_id: "" }));
    }
    caller.close();
  }
  const quantile = (kind: string, q: number): number => {
    const sorted = [...(times.get(kind) ?? [])].sort((a, b) => a - b);
    return Math.round((sorted[Math.floor(q * (sorted.length - 1))] ?? 0) * 1000);
  };
  const alike = kinds.filter((kind) => kind !== "exhausted");
  return {
    answers: tally(answers),
    counts: Object.fromEntries(
      kinds.flatMap((kind) =>
        [0.1, 0.5, 0.9].map((q) => [`${kind}_p${q * 100}_us`, quantile(kind, q)]),
      ),
    ),
    held: {
      "each answer is 401 token_invalid, with one body":
        bodies.size === 1 && answers.every((answer) => nameOf(answer) === "401 token_invalid"),
      // An exhausted token is rejected after the request's body, as the request may be a retry: its times are only reported.
      "the times of unknown, expired and revoked tokens overlap: each one's fastest tenth is within nine tenths of the others":
        alike.every((kind) => alike.every((other) => quantile(kind, 0.1) <= quantile(other, 0.9))),
    },
  };
};
