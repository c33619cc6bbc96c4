import { bootstrapToken, enrollmentPolicy } from "#drizzle/schema/enrollment.ts";
import { insertAuditEvents } from "#functions/store/audit/audit.ts";
import type { Database } from "#functions/store/database/database.ts";
import { hourMs } from "#kit/clock.ts";
import { people } from "#scripts/lab/people.ts";
import { insertEnrollments } from "#scripts/lab/seed-enrollments.ts";
import { seededId } from "#scripts/lab/seed-rollouts.ts";

/** Returns the id of the `n`th seeded policy: 0 is active, 1 is frozen. */
export const seededPolicyId = (n: number): string => seededId("b300", n);

/** Each seeded token: its policy, how often it was used and may be, when it expires from now, and whether it was revoked. */
const tokens: readonly [
  policy: number,
  uses: number,
  usesMax: number,
  expiresHours: number,
  isRevoked: boolean,
][] = [
  [0, 12, 0, 72, false],
  [0, 3, 20, 20, false],
  [0, 5, 5, 20, false],
  [0, 0, 1, -2, false],
  [0, 1, 0, 48, true],
  [1, 40, 100, 90, false],
];

/**
 * Writes two policies, tokens in every state with the events of their uses, of which one enrolls a host again, and refusals of the last
 * day. The same time gives the same rows.
 */
export const seedEnrollment = async (db: Database, now: Date): Promise<void> => {
  const at = (hours: number) => new Date(now.getTime() + hours * hourMs);
  await insertPolicies(db, at);
  await db.insert(bootstrapToken).values(
    tokens.map(([policyOf, useCount, maxUses, expires, isRevoked], n) => ({
      id: seededId("b400", n),
      policyId: seededPolicyId(policyOf),
      tokenSha256: new Uint8Array(32).fill(n + 1),
      tokenPrefix: `svcbt_Ex${n}mpl`,
      description: n === 1 ? "Ansible run of the week" : null,
      allowedSourceCidrs: [],
      maxUses,
      useCount,
      lastUsedAt: useCount > 0 ? at(-3 - n) : null,
      lastUsedAddress: useCount > 0 ? `10.20.0.${n + 10}` : null,
      expiresAt: at(expires),
      revokedAt: isRevoked ? at(-1) : null,
      createdAt: at(-70 + n),
      createdBy: people.admin.userId,
    })),
  );
  const uses = tokens.flatMap(([policyOf, uses], n) =>
    Array.from({ length: uses }, () => ({ policyOf, n })),
  );
  await insertEnrollments(
    db,
    "b600",
    uses.map(({ policyOf, n }, index) => ({
      n: index,
      id: seededId("b700", index),
      identity: `spiffe://example.com/collectors/web-${index}`,
      enrolledAt: at(-60 + index / 2),
      address: `10.20.0.${index + 1}`,
      policyId: seededPolicyId(policyOf),
      tokenId: seededId("b400", n),
      isReenrolled: index === 4,
    })),
  );
  const refusal = refusalsSince(at);
  await insertAuditEvents(db, [
    refusal(1, "policy_frozen", 1, "10.20.7.4"),
    refusal(2, "token_expired", 0, "10.20.0.31"),
    refusal(3, "token_expired", 0, "10.20.0.32"),
    refusal(4, "token_unknown", null, "203.0.113.9"),
    refusal(5, "token_unknown", null, "203.0.113.9", 240),
    refusal(30, "source_not_allowed", 0, "198.51.100.7"),
  ]);
};

const insertPolicies = async (db: Database, at: (hours: number) => Date): Promise<void> => {
  const policy = {
    allowedIdentityPrefixes: ["spiffe://example.com/collectors/"],
    certificateTtlSeconds: 1_814_400,
    maxEnrollmentsPerHour: 200,
    reenrollment: "deny" as const,
    createdBy: people.admin.userId,
  };
  await db.insert(enrollmentPolicy).values([
    {
      ...policy,
      id: seededPolicyId(0),
      name: "web servers",
      description: "Frankfurt and Dublin",
      allowedPlatforms: ["linux/amd64", "linux/arm64"],
      allowedSourceCidrs: ["10.20.0.0/16"],
      maxEnrollments: 500,
      enrollmentCount: 20,
      labels: { env: "prod", team: "web" },
      createdAt: at(-400),
    },
    {
      ...policy,
      id: seededPolicyId(1),
      name: "old data centre",
      allowedPlatforms: [],
      allowedSourceCidrs: [],
      maxEnrollments: 0,
      enrollmentCount: 40,
      createdAt: at(-900),
      frozenAt: at(-30),
    },
  ]);
};

/** Returns a function that makes the event of the `n`th refusal, or of `repeats` of them from one address. */
const refusalsSince =
  (at: (hours: number) => Date) =>
  (n: number, reason: string, policyOf: number | null, address: string, repeats = 0) => ({
    id: seededId("b500", n),
    occurredAt: at(-n),
    actorType: "collector" as const,
    actorId: "",
    actorDisplay: "unknown",
    action: "collector.enroll",
    targetType: repeats > 0 ? "remote_address" : "bootstrap_token",
    targetId: repeats > 0 ? address : seededId("b400", n),
    outcome: "failure" as const,
    reasonCode: null,
    reason,
    remoteAddr: repeats > 0 ? null : address,
    requestId: null,
    details:
      repeats > 0
        ? { count: repeats, minute: at(-n).toISOString(), last_at: at(-n).toISOString() }
        : {
            policy_id: policyOf === null ? null : seededPolicyId(policyOf),
            token_prefix: null,
            code: reason,
          },
  });
