import { index, integer, pgTable, text, uuid } from "drizzle-orm/pg-core";
import { bytea, timestamp } from "./columns.ts";
import { person } from "./operator.ts";

/** How a session began: a redirect to the caller's loopback address (RFC 8252), or a code typed on another device (RFC 8628). */
export type SessionFlow = "browser" | "device";

/** A program that calls core as a person, with a token whose `sid` claim is this id. Core checks the row on each request. */
export const operatorSession = pgTable(
  "operator_session",
  {
    id: uuid("id").primaryKey(),
    userId: uuid("user_id")
      .notNull()
      .references(() => person.userId),
    flow: text("flow").$type<SessionFlow>().notNull(),
    /** The program and machine, as the consent page showed them. */
    clientName: text("client_name").notNull(),
    remoteAddress: text("remote_addr").notNull(),
    createdAt: timestamp("created_at").notNull(),
    expiresAt: timestamp("expires_at").notNull(),
    revokedAt: timestamp("revoked_at"),
    /** The session at web in which the person consented: its sign-out ends this one. Null for one that an older core began. */
    webSessionId: text("web_session_id"),
  },
  (table) => [index("operator_session_user").on(table.userId, table.id)],
);

/** A code of the authorization code flow with PKCE (RFC 7636): single-use, and kept for a day so that a second use is noticed. */
export const authorizationCode = pgTable(
  "authorization_code",
  {
    codeSha256: bytea("code_sha256").primaryKey(),
    userId: uuid("user_id")
      .notNull()
      .references(() => person.userId),
    codeChallenge: text("code_challenge").notNull(),
    redirectUri: text("redirect_uri").notNull(),
    clientName: text("client_name").notNull(),
    createdAt: timestamp("created_at").notNull(),
    usedAt: timestamp("used_at"),
    /** The session of the first use. */
    sessionId: uuid("session_id"),
    /** The session at web in which the person consented, and its end. */
    webSessionId: text("web_session_id"),
    webSessionExpiresAt: timestamp("web_session_expires_at"),
  },
  (table) => [index("authorization_code_created").on(table.createdAt)],
);

/** The state of a device authorization: `used` once its session has begun. */
export type DeviceStatus = "pending" | "approved" | "denied" | "used";

/** A request of the device authorization flow (RFC 8628). */
export const deviceAuthorization = pgTable(
  "device_authorization",
  {
    deviceCodeSha256: bytea("device_code_sha256").primaryKey(),
    /** Eight consonants, without the hyphen that people see. */
    userCode: text("user_code").notNull().unique("device_authorization_user_code"),
    clientName: text("client_name").notNull(),
    remoteAddress: text("remote_addr").notNull(),
    createdAt: timestamp("created_at").notNull(),
    status: text("status").$type<DeviceStatus>().notNull(),
    /** Who decided. */
    userId: uuid("user_id").references(() => person.userId),
    intervalSeconds: integer("interval_seconds").notNull(),
    lastPolledAt: timestamp("last_polled_at"),
    /** By which requests are counted: an IPv4 address or an IPv6 /64. */
    addressKey: text("address_key"),
    /** The session at web in which the person approved, and its end. */
    webSessionId: text("web_session_id"),
    webSessionExpiresAt: timestamp("web_session_expires_at"),
  },
  (table) => [index("device_authorization_created").on(table.createdAt)],
);

/** A session at web that ended before it expired. Core rejects what web asks in its name; the row is deleted after it expires. */
export const endedWebSession = pgTable(
  "ended_web_session",
  {
    id: text("id").primaryKey(),
    expiresAt: timestamp("expires_at").notNull(),
  },
  (table) => [index("ended_web_session_expires").on(table.expiresAt)],
);

/** A session at web that has not expired, for the sign-out that its identity provider reports: core checks `ended_web_session` alone. */
export const webSession = pgTable(
  "web_session",
  {
    id: text("id").primaryKey(),
    userId: uuid("user_id")
      .notNull()
      .references(() => person.userId),
    /** The `sid` of the id_token: the session at the provider; null if it does not say. */
    providerSessionId: text("provider_session_id"),
    expiresAt: timestamp("expires_at").notNull(),
  },
  (table) => [
    index("web_session_provider_session").on(table.providerSessionId),
    index("web_session_user").on(table.userId),
    index("web_session_expires").on(table.expiresAt),
  ],
);

/** A logout token that an identity provider sent, until it expires: each ends sessions once, and its session begins no other. */
export const usedLogoutToken = pgTable(
  "used_logout_token",
  {
    jti: text("jti").primaryKey(),
    /** Null if it names none, and for a token that an older core stored. */
    subject: text("subject"),
    providerSessionId: text("provider_session_id"),
    expiresAt: timestamp("expires_at").notNull(),
  },
  (table) => [
    index("used_logout_token_provider_session").on(table.providerSessionId),
    index("used_logout_token_expires").on(table.expiresAt),
  ],
);
