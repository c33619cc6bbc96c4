import { type Attack, inParallel, upTo } from "./attack.ts";
import { createCaller, createCandidate, createPolicy, nameOf, tally } from "./caller.ts";

const enrollments = 200;
const limit = 7;

/** 200 hosts, each with its own address, enroll at once under a policy that allows 7. */
export const attackLimit: Attack = async (core) => {
  const { policyId, token } = await createPolicy(core, { max_enrollments: limit });
  const hosts = await inParallel(upTo(enrollments), 4, async (at) => ({
    caller: createCaller(core, `127.0.1.${at + 1}`),
    candidate: await createCandidate(),
  }));
  const answers = await Promise.all(
    hosts.map(({ caller, candidate }) => caller.enroll(candidate, token)),
  );
  for (const { caller } of hosts) caller.close();
  const [rows] = await core.sql<
    { identities: number; certificates: number; counted: number; held: number }[]
  >`
    select (select count(*)::int from collector_identity where policy_id = p.id) as identities,
           (select count(*)::int from certificate c join collector_identity i on i.id = c.identity_id
             where i.policy_id = p.id) as certificates,
           p.enrollment_count::int as counted,
           (select count(*)::int from enrollment_reservation where policy_id = p.id) as held
    from enrollment_policy p where p.id = ${policyId}`;
  const { identities = 0, certificates = 0, counted = 0, held = 0 } = rows ?? {};
  const issued = answers.filter(({ status }) => status === 201);
  const refused = answers.filter((answer) =>
    ["403 enrollment_limit_reached", "429 throttled"].includes(nameOf(answer)),
  );
  return {
    answers: tally(answers),
    counts: { identities, certificates, counted, reservations_left: held },
    held: {
      "exactly 7 hosts got a certificate": issued.length === limit,
      "all others were rejected because of the limit": refused.length === enrollments - limit,
      "the database holds 7 identities and 7 certificates":
        identities === limit && certificates === limit,
      "the policy counts 7, and no reservation is left": counted === limit && held === 0,
    },
  };
};
