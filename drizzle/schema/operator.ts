import { index, unique, uniqueIndex } from "drizzle-orm/pg-core";
import type { Scope } from "#proto/operator/scopes.ts";
import {
  bytea,
  integer,
  nullable,
  primaryKeyOf,
  singleRowTable,
  table,
  text,
  timestamp,
  uuid,
} from "./columns.ts";

/**
 * The status of a person in the directory. Only `active` may sign in or call core. `held`: active in a restored backup, which nobody has
 * confirmed yet.
 */
export type PersonStatus = "active" | "held" | "suspended" | "archived" | "unverified" | "absent";

/** A person of the directory. */
export const person = table(
  "person",
  {
    userId: uuid().primaryKey(),
    primaryEmail: text(),
    displayName: text().default(""),
    status: text().$type<PersonStatus>(),
    scopes: text().array().$type<Scope[]>().notNull(),
    /** Time of the newest snapshot that agrees with this row. */
    syncedAt: timestamp(),
    /** Consecutive snapshots that lack this active person, or have them outside the domain, while the removal is held; else 0. */
    missedSyncs: integer().default(0),
  },
  (columns) => [index("person_email").on(columns.primaryEmail)],
);

/** The subject of a person at the identity provider, within one deployment. */
export const authenticationIdentity = table(
  "authentication_identity",
  {
    tenantId: uuid(),
    subject: text(),
    userId: uuid().references(() => person.userId),
  },
  (columns) => [
    primaryKeyOf(columns.tenantId, columns.subject),
    uniqueIndex("authentication_identity_person").on(columns.userId),
  ],
);

/** A subject of an issuer that has exchanged a token: the actor of what it does. Its scopes are in the issuers' file. */
export const workload = table(
  "workload",
  {
    id: uuid().primaryKey(),
    issuer: text(),
    subject: text(),
    firstSeenAt: timestamp(),
    lastSeenAt: timestamp(),
  },
  (columns) => [unique("workload_subject").on(columns.issuer, columns.subject)],
);

/**
 * The result of a directory sync: `synced`, the whole snapshot was written; `held`, all except a mass removal of people; `refused`, the
 * snapshot was implausible; `failed`, there was no snapshot.
 */
export type DirectoryOutcome = "synced" | "held" | "refused" | "failed";

/** One row: the result of the newest sync by any core. A transaction that writes a snapshot locks it. */
export const directorySync = singleRowTable("directory_sync", {
  /** Number of finished syncs. A sync during which another one finished does not write. */
  syncs: integer(),
  finishedAt: timestamp(),
  outcome: text().$type<DirectoryOutcome>(),
  reasonCode: nullable.text(),
  /** When a snapshot was last written; null if never. */
  syncedAt: nullable.timestamp(),
  /** When an identity provider last pushed a change over SCIM; null if never. */
  pushedAt: nullable.timestamp(),
  /** Consecutive syncs that wrote nothing. */
  failures: integer(),
  /** Role groups that the newest snapshot lacks. */
  missingGroups: text().array().notNull(),
});

/** How a session began: a redirect to the caller's loopback address (RFC 8252), or a code typed on another device (RFC 8628). */
export type SessionFlow = "browser" | "device";

/** A program that calls core as a person, with a token whose `sid` claim is this id. Core checks the row on each request. */
export const operatorSession = table(
  "operator_session",
  {
    id: uuid().primaryKey(),
    userId: uuid().references(() => person.userId),
    flow: text().$type<SessionFlow>(),
    /** The program and machine, as the consent page showed them. */
    clientName: text(),
    remoteAddress: text("remote_addr"),
    createdAt: timestamp(),
    expiresAt: timestamp(),
    revokedAt: nullable.timestamp(),
    /** The session at web in which the person consented: its sign-out ends this one. Null for one that an older core began. */
    webSessionId: nullable.text(),
  },
  (columns) => [index("operator_session_user").on(columns.userId, columns.id)],
);

/** A code of the authorization code flow with PKCE (RFC 7636): single-use, and kept for a day so that a second use is noticed. */
export const authorizationCode = table(
  "authorization_code",
  {
    codeSha256: bytea().primaryKey(),
    userId: uuid().references(() => person.userId),
    codeChallenge: text(),
    redirectUri: text(),
    clientName: text(),
    createdAt: timestamp(),
    usedAt: nullable.timestamp(),
    /** The session of the first use. */
    sessionId: nullable.uuid(),
    /** The session at web in which the person consented, and its end. */
    webSessionId: nullable.text(),
    webSessionExpiresAt: nullable.timestamp(),
  },
  (columns) => [index("authorization_code_created").on(columns.createdAt)],
);

/** The state of a device authorization: `used` once its session has begun. */
export type DeviceStatus = "pending" | "approved" | "denied" | "used";

/** A request of the device authorization flow (RFC 8628). */
export const deviceAuthorization = table(
  "device_authorization",
  {
    deviceCodeSha256: bytea().primaryKey(),
    /** Eight consonants, without the hyphen that people see. */
    userCode: text().unique("device_authorization_user_code"),
    clientName: text(),
    remoteAddress: text("remote_addr"),
    createdAt: timestamp(),
    status: text().$type<DeviceStatus>(),
    /** The person who decided. */
    userId: nullable.uuid().references(() => person.userId),
    intervalSeconds: integer(),
    lastPolledAt: nullable.timestamp(),
    /** By which requests are counted: an IPv4 address or an IPv6 /64. */
    addressKey: nullable.text(),
    /** The session at web in which the person approved, and its end. */
    webSessionId: nullable.text(),
    webSessionExpiresAt: nullable.timestamp(),
  },
  (columns) => [index("device_authorization_created").on(columns.createdAt)],
);

/** A session at web that ended before it expired. Core rejects what web asks in its name; the row is deleted after it expires. */
export const endedWebSession = table(
  "ended_web_session",
  {
    id: text().primaryKey(),
    expiresAt: timestamp(),
  },
  (columns) => [index("ended_web_session_expires").on(columns.expiresAt)],
);

/** A session at web that has not expired, for the sign-out that its identity provider reports: core checks `ended_web_session` alone. */
export const webSession = table(
  "web_session",
  {
    id: text().primaryKey(),
    userId: uuid().references(() => person.userId),
    /** The `sid` of the id_token: the session at the provider; null if it does not say. */
    providerSessionId: nullable.text(),
    expiresAt: timestamp(),
  },
  (columns) => [
    index("web_session_provider_session").on(columns.providerSessionId),
    index("web_session_user").on(columns.userId),
    index("web_session_expires").on(columns.expiresAt),
  ],
);

/** A logout token that an identity provider sent, until it expires: each ends sessions once, and its session begins no other. */
export const usedLogoutToken = table(
  "used_logout_token",
  {
    jti: text().primaryKey(),
    /** Null if it names none, and for a token that an older core stored. */
    subject: nullable.text(),
    providerSessionId: nullable.text(),
    expiresAt: timestamp(),
  },
  (columns) => [
    index("used_logout_token_provider_session").on(columns.providerSessionId),
    index("used_logout_token_expires").on(columns.expiresAt),
  ],
);
