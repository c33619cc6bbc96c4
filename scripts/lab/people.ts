import { SignJWT } from "jose";
import { authenticationIdentity, person } from "#drizzle/schema/operator.ts";
import type { Database } from "#functions/store/database/database.ts";
import type { Scope } from "#proto/operator/scopes.ts";

/** The people of every test core, by what they may do. */
export type PersonName = "admin" | "auditor" | "reader";

/** A person in the database. */
export interface TestPerson {
  userId: string;
  /** The id in the directory, which is the `sub` of the identity provider. */
  subject: string;
  email: string;
  displayName: string;
  scopes: readonly Scope[];
}

/** The tenant of tests and demo. */
export const testTenantId = "01920000-0000-7000-8000-000000000001";

/** Fixed, so that snapshots and failures read the same each time. */
export const people: Readonly<Record<PersonName, TestPerson>> = {
  admin: {
    userId: "01920000-0000-7000-8000-00000000000a",
    subject: "100000000000000000010",
    email: "ada@example.test",
    displayName: "Ada Lovelace",
    scopes: ["read", "audit", "admin"],
  },
  auditor: {
    userId: "01920000-0000-7000-8000-00000000000b",
    subject: "100000000000000000011",
    email: "grace@example.test",
    displayName: "Grace Hopper",
    scopes: ["read", "audit"],
  },
  reader: {
    userId: "01920000-0000-7000-8000-00000000000c",
    subject: "100000000000000000012",
    email: "edsger@example.test",
    displayName: "Edsger Dijkstra",
    scopes: ["read"],
  },
};

/** The names of all people. */
export const personNames = Object.keys(people) as PersonName[];

/** Writes the people as a directory sync would; one that finds them in the directory leaves them as they are. */
export const seedPeople = async (db: Database, now: number): Promise<void> => {
  const seeded = Object.values(people);
  await db.insert(person).values(
    seeded.map(({ userId, email, displayName, scopes }) => ({
      userId,
      primaryEmail: email,
      displayName,
      status: "active" as const,
      scopes: [...scopes],
      syncedAt: new Date(now),
    })),
  );
  await db
    .insert(authenticationIdentity)
    .values(seeded.map(({ subject, userId }) => ({ tenantId: testTenantId, subject, userId })));
};

/** Mints a bridge token as web does (docs/api.md), valid for five minutes; `claims` replace the usual ones. */
export const mintBridgeToken = (
  secret: string,
  {
    sub,
    now,
    claims = {},
  }: { sub: string; now: number; claims?: Readonly<Record<string, unknown>> },
): Promise<string> => {
  const iat = Math.floor(now / 1000);
  return new SignJWT({ sub, aud: "core", iat, exp: iat + 300, ...claims })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .sign(new TextEncoder().encode(secret));
};
