import { systemClock } from "#kit/clock.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { collectorOf } from "#tests/support/collector.ts";
import type { Attack } from "./attack.ts";
import { type Answer, createCaller, createHost, createPolicy, tally } from "./caller.ts";

const attackMs = 12_000;
const renewalsMax = 6;
const heartbeatsMax = 6;
const refusedMax = 200;

/** Renews with each new certificate in turn for 12 seconds; sends a heartbeat after each. */
export const attackChain: Attack = async (core) => {
  const { token } = await createPolicy(core);
  const caller = createCaller(core, "127.0.6.1");
  let host = await createHost(caller, token);
  const renewals: Answer[] = [];
  const heartbeats: Answer[] = [];
  const refused = () => renewals.filter(({ status }) => status !== 200).length;
  const startedAt = systemClock.monotonic();
  let sentAt = 0;
  while (systemClock.monotonic() - startedAt < attackMs && refused() < refusedMax) {
    sentAt = Math.max(systemClock.now(), sentAt + 1);
    const key = await createTestKey();
    const renewal = await caller.renew(host, key, sentAt);
    renewals.push(renewal);
    if (renewal.status === 200) host = collectorOf(key, renewal.body);
    heartbeats.push(await caller.heartbeat(host, sentAt));
    await systemClock.sleep(50);
  }
  caller.close();
  const [rows] = await core.sql<{ certificates: number; granted: number; refusals: number }[]>`
    select (select count(*)::int from certificate where identity_id = ${host.identityId}) as certificates,
           count(*) filter (where outcome = 'success')::int as granted,
           count(*) filter (where outcome = 'failure')::int as refusals
    from audit_event where action = 'certificate.renew' and actor_id = ${host.identityId}`;
  const { certificates = 0, granted = 0, refusals = 0 } = rows ?? {};
  const retryAfter = renewals.flatMap(({ retryAfterSeconds }) => retryAfterSeconds ?? []);
  return {
    answers: tally([...renewals, ...heartbeats]),
    counts: {
      renewals_tried: renewals.length,
      certificates,
      renewal_events: granted,
      refusal_events: refusals,
      heartbeats_accepted: heartbeats.filter(({ status }) => status === 200).length,
    },
    held: {
      "six renewals of the identity succeeded, whichever certificate it presented":
        granted === renewalsMax && certificates === renewalsMax + 1,
      "every other one got a Retry-After of at most a minute":
        retryAfter.length === refused() &&
        retryAfter.every((seconds) => seconds >= 1 && seconds <= 60),
      "the refusals are one audit event": refusals === 1,
      "no new certificate reset the limit of heartbeats":
        heartbeats.filter(({ status }) => status === 200).length <= heartbeatsMax + renewalsMax,
    },
  };
};
