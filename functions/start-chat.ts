import { variableFault } from "#kit/env.ts";
import { type Job, runJobs } from "#kit/run-every.ts";
import type { CreatedChatSql } from "./chat-sql/create-chat-sql.ts";
import type { ChatConfig } from "./config/chat-config.ts";
import type { Core } from "./core.ts";
import type { Chat, ReceiptSigner } from "./domain/chat/chat.ts";
import { closeExpiredTurns } from "./domain/chat/close-turn.ts";
import { createReceiptSigner } from "./domain/chat/receipt-signer.ts";
import { keepReceiptKey } from "./domain/chat/receipts.ts";
import { readFleetRules } from "./domain/fleet/rules.ts";
import { fleetThresholds } from "./domain/fleet/thresholds.ts";
import { createRoleAdmitter } from "./jobs/admit-chat-roles.ts";
import { readKeyFile, withConfigError } from "./node/config-files.ts";
import { withDatabaseFaults } from "./node/database/prepare-database.ts";

/** The interval of the search for turns whose core was killed. */
const turnsIntervalMs = 3_000;
const rolesIntervalMs = 10_000;

/** Loads the key that signs receipts, or generates one if none is configured. Throws `ConfigError` for an unusable key. */
export const loadReceiptSigner = ({
  receiptKey,
}: Pick<ChatConfig, "receiptKey">): Promise<ReceiptSigner> =>
  withConfigError("SVC_CHAT_RECEIPT_SIGNING_KEY_PATH", () =>
    createReceiptSigner(
      receiptKey && { pem: readKeyFile(receiptKey.file).toString("utf8"), id: receiptKey.id },
    ),
  );

type Needs = Pick<Core, "config" | "db" | "clock" | "entropy" | "log">;

interface ChatNeeds {
  config: ChatConfig;
  signer: ReceiptSigner;
  jobsDatabase: Pick<Core, "db">;
  /** Returns the URL of the server in use. */
  locate(): Promise<string>;
  stopping: AbortSignal;
}

/**
 * Creates the chat agent: loads the language model and the SQL tools, and starts its jobs. Throws `ConfigError` for a key id that belongs
 * to another key. If the SQL tools fail, starts without them and warns.
 */
export const startChat = async (core: Needs, needs: ChatNeeds) => {
  const { config, signer, jobsDatabase, stopping } = needs;
  await checkReceiptKey(core, needs);
  const { createInference } = await import("./inference/create-inference.ts");
  const inference = await createInference(config.inference, core);
  const { sql, offReason: sqlOffReason, admitRoles } = await createTools(core, needs);
  const chat: Chat = { inference, sql, sqlOffReason, signer, stopping };
  const jobs: Job[] = [
    ["chat turns", turnsIntervalMs, () => closeExpiredTurns({ ...core, ...jobsDatabase }, chat)],
  ];
  if (admitRoles) jobs.push(["chat roles", rolesIntervalMs, createRoleAdmitter(core, admitRoles)]);
  const running = runJobs({ clock: core.clock, signal: stopping, log: core.log }, jobs);
  return {
    chat,
    /** Ends its jobs and closes its connections, after `stopping` has aborted. */
    close: async () => {
      await running;
      await chat.sql?.close();
    },
  };
};

const checkReceiptKey = async (
  { db, clock, log }: Needs,
  { config: { receiptKey }, signer }: ChatNeeds,
) => {
  if (!(await keepReceiptKey(db, { signer, clock })))
    throw variableFault(
      "SVC_CHAT_RECEIPT_SIGNING_KEY_ID",
      "is the id of another key, which has signed receipts: give the new key a new id",
    );
  if (receiptKey === null)
    log.warn(
      { key_id: signer.key.kid },
      "receipts of chat are signed with an ephemeral key: set SVC_CHAT_RECEIPT_SIGNING_KEY_PATH",
    );
};

const createTools = async (
  core: Needs,
  { config, jobsDatabase, locate }: ChatNeeds,
): Promise<Pick<CreatedChatSql, "sql" | "offReason"> & Partial<CreatedChatSql>> => {
  if (!config.sqlToolEnabled) return { sql: null, offReason: "SVC_CHAT_SQL_TOOL_ENABLED is false" };
  const { createChatSql } = await import("./chat-sql/create-chat-sql.ts");
  const created = await withDatabaseFaults("SVC_DATABASE_URL", () =>
    createChatSql({
      db: jobsDatabase.db,
      locate,
      url: config.sqlDatabaseUrl,
      secret: core.config.authTokenSecret.reveal(),
      secretPrevious: core.config.authTokenSecretPrevious?.reveal() ?? null,
      thresholds: fleetThresholds(core.config),
      readRules: () => readFleetRules(core),
    }),
  );
  for (const warning of created.warnings) core.log.warn({}, warning);
  return created;
};
