import { systemClock } from "#kit/clock.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { collectorOf } from "#tests/support/collector.ts";
import { type Attack, inParallel, upTo } from "./attack.ts";
import { createCaller, createCandidate, createPolicy, nameOf, tally } from "./caller.ts";

const enrollments = 150;
const atOnce = 25;
const frozenAfter = 40;

/** 150 hosts enroll, 25 at a time; an admin freezes the policy once 40 have their certificate. */
export const attackFreeze: Attack = async (core) => {
  const { policyId, token } = await createPolicy(core);
  const candidates = await inParallel(upTo(enrollments), 4, createCandidate);
  const caller = createCaller(core, "127.0.3.1");
  let issuedSoFar = 0;
  let isFrozen = false;
  let freezing: Promise<unknown> | undefined;
  const freeze = async () => {
    await core.api("admin", "POST", `/v1/collector/enrollment-policies/${policyId}/freeze`);
    isFrozen = true;
  };
  const outcomes = await inParallel(candidates, atOnce, async (candidate) => {
    const startedFrozen = isFrozen;
    const answer = await caller.enroll(candidate, token);
    if (answer.status === 201 && ++issuedSoFar >= frozenAfter) freezing ??= freeze();
    return { candidate, startedFrozen, answer };
  });
  await freezing;
  const answers = outcomes.map(({ answer }) => answer);
  const issued = outcomes.filter(({ answer }) => answer.status === 201);
  const late = outcomes.filter(({ startedFrozen }) => startedFrozen);
  const [rows] = await core.sql<{ certificates: number; counted: number; after: number }[]>`
    select count(c.id)::int as certificates, max(p.enrollment_count)::int as counted,
           count(c.id) filter (where i.enrolled_at > p.frozen_at)::int as after
    from enrollment_policy p join collector_identity i on i.policy_id = p.id join certificate c on c.identity_id = i.id
    where p.id = ${policyId}`;
  const { certificates = 0, counted = 0, after = 0 } = rows ?? {};

  const [first] = issued;
  const renewed =
    first &&
    (await caller.renew(
      collectorOf(first.candidate.key, first.answer.body),
      await createTestKey(),
      systemClock.now(),
    ));
  caller.close();
  return {
    answers: tally(answers),
    counts: { issued: issued.length, started_after_the_freeze: late.length, certificates, counted },
    held: {
      "the freeze came in the middle": issued.length >= frozenAfter && late.length > 0,
      "no enrollment that started after it got a certificate": late.every(
        ({ answer }) => answer.status !== 201,
      ),
      "no identity is recorded as enrolled after it": after === 0,
      "every refusal is for the freeze or the throttle": answers.every((answer) =>
        ["201", "403 policy_frozen", "429 throttled"].includes(nameOf(answer)),
      ),
      "certificates, the policy's count and the answers agree":
        certificates === issued.length && counted === issued.length,
      "hosts that enrolled before still renew": renewed?.status === 200,
    },
  };
};
