import { systemClock } from "#kit/clock.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { collectorOf } from "#tests/support/collector.ts";
import { type Attack, upTo } from "./attack.ts";
import { createCaller, createHost, createPolicy, nameOf, tally } from "./caller.ts";

const renewals = 10;

/** 10 renewals of one certificate at once, each with its own key; then 10 of another with one key, as after lost responses. */
export const attackLineage: Attack = async (core) => {
  const { token } = await createPolicy(core);
  const caller = createCaller(core);
  const attack = async (keyAt: (at: number) => ReturnType<typeof createTestKey>) => {
    const host = await createHost(caller, token);
    const keys = await Promise.all(upTo(renewals).map(keyAt));
    const now = systemClock.now();
    const answers = await Promise.all(keys.map((key, at) => caller.renew(host, key, now + at)));
    const granted = answers.flatMap(({ status, body }, at) => {
      const key = keys[at];
      return status === 200 && key ? [collectorOf(key, body)] : [];
    });
    return { host, answers, granted };
  };
  const active = async (identityId: string): Promise<number> =>
    (
      await core.sql`select 1 from certificate where identity_id = ${identityId} and status = 'active'`
    ).length;

  const several = await attack(() => createTestKey());
  const activeBefore = await active(several.host.identityId);
  const uses: string[] = [];
  for (const certificate of several.granted)
    uses.push(nameOf(await caller.heartbeat(certificate, systemClock.now())));
  const afterwards = nameOf(await caller.heartbeat(several.host, systemClock.now()));
  const activeAfter = await active(several.host.identityId);

  const sameKey = createTestKey();
  const same = await attack(() => sameKey);
  const sameIds = new Set(same.granted.map(({ certificateId }) => certificateId));
  caller.close();

  const orderly = ["200", "409 stale_request", "429 rate_limited"];
  const used = uses.filter((use) => use === "200").length;
  return {
    answers: tally([...several.answers, ...same.answers]),
    counts: {
      granted_to_several_keys: several.granted.length,
      granted_to_one_key: same.granted.length,
      certificates_of_one_key: sameIds.size,
      active_before_use: activeBefore,
      active_after_use: activeAfter,
      usable: used,
    },
    held: {
      "every response is a certificate, or a rejection by the replay protection": [
        ...several.answers,
        ...same.answers,
      ]
        .map(nameOf)
        .every((name) => orderly.includes(name)),
      "some renewal succeeded, each time": several.granted.length > 0 && same.granted.length > 0,
      "one successor is active beside the renewed certificate": activeBefore === 2,
      "one of the issued certificates can be used, the others are replaced":
        used === 1 && uses.every((use) => use === "200" || use === "401 certificate_replaced"),
      "its use ends the renewed certificate":
        afterwards === "401 certificate_replaced" && activeAfter === 1,
      "one key gets one certificate": sameIds.size === 1,
    },
  };
};
