import { generateToken } from "#functions/domain/enrollment/bootstrap-token.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { type Attack, inParallel, upTo } from "./attack.ts";
import { type Answer, createCaller, createCandidate, createPolicy, tally } from "./caller.ts";

const badTokens = 10_000;
const atOnce = 50;
const address = "127.0.2.1";
const freeFailures = 10;

/** Sends 10,000 well-formed tokens that core never issued, while hosts with a valid token enroll from the same address. */
export const attackThrottle: Attack = async (core) => {
  const { token } = await createPolicy(core);
  const attacker = createCaller(core, address);
  const neighbour = createCaller(core, address);
  const candidate = await createCandidate();
  let floods = true;
  const flood = inParallel(upTo(badTokens), atOnce, () =>
    attacker.enroll(candidate, generateToken(systemEntropy)),
  ).finally(() => {
    floods = false;
  });
  const good: Answer[] = [];
  let slowestMs = 0;
  while (floods) {
    const host = await createCandidate();
    const startedAt = systemClock.monotonic();
    good.push(await neighbour.enroll(host, token));
    slowestMs = Math.max(slowestMs, systemClock.monotonic() - startedAt);
    await systemClock.sleep(50);
  }
  const bad = await flood;
  for (const caller of [attacker, neighbour]) caller.close();
  const events = await core.sql`
    select 1 from audit_event where action = 'collector.enroll' and outcome = 'failure' and remote_addr = ${address}`;
  const answered = tally(bad);
  const rejected = answered["401 token_invalid"] ?? 0;
  const throttled = answered["429 throttled"] ?? 0;
  return {
    answers: answered,
    counts: {
      good_tokens_tried: good.length,
      good_tokens_enrolled: good.filter(({ status }) => status === 201).length,
      slowest_good_ms: Math.round(slowestMs),
      audit_events: events.length,
    },
    held: {
      "no bad token enrolled, and each got 401 or 429": rejected + throttled === badTokens,
      "the throttle starts after exactly 10 failures": rejected === freeFailures,
      "every valid token enrolled, from the same address":
        good.length > 0 && good.every(({ status }) => status === 201),
      "no valid token waited 5 seconds": slowestMs < 5_000,
      "the refusals did not flood the audit log": events.length >= 1 && events.length <= atOnce,
    },
  };
};
