import { SignJWT } from "jose";
import { person, type Scope } from "../drizzle/schema/operator.ts";
import type { Database } from "../functions/store/database.ts";

/** The people of every test core, by what they may do. */
export type PersonName = "admin" | "auditor" | "reader";

/** A person in the database. */
export interface TestPerson {
  userId: string;
  email: string;
  scopes: readonly Scope[];
}

/** Fixed, so that snapshots and failures read the same each time. */
export const people: Readonly<Record<PersonName, TestPerson>> = {
  admin: {
    userId: "01920000-0000-7000-8000-00000000000a",
    email: "ada@example.test",
    scopes: ["read", "audit", "admin"],
  },
  auditor: { userId: "01920000-0000-7000-8000-00000000000b", email: "grace@example.test", scopes: ["read", "audit"] },
  reader: { userId: "01920000-0000-7000-8000-00000000000c", email: "edsger@example.test", scopes: ["read"] },
};

/** Writes the people as a directory sync would. */
export const seedPeople = async (db: Database, now: number): Promise<void> => {
  await db.insert(person).values(
    Object.values(people).map(({ userId, email, scopes }) => ({
      userId,
      primaryEmail: email,
      status: "active" as const,
      scopes: [...scopes],
      syncedAt: new Date(now),
    })),
  );
};

/** A bridge token as web mints it (spec, "Bridge token"): five minutes, unless `claims` says otherwise. */
export const mintBridgeToken = (
  secret: string,
  { sub, now, claims = {} }: { sub: string; now: number; claims?: Readonly<Record<string, unknown>> },
): Promise<string> => {
  const iat = Math.floor(now / 1000);
  return new SignJWT({ sub, aud: "core", iat, exp: iat + 300, ...claims })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .sign(new TextEncoder().encode(secret));
};
