import { ConfigError } from "../kit/env.ts";
import { runEvery } from "../kit/run-every.ts";
import type { ChatConfig } from "./chat-config.ts";
import type { CreatedChatSql } from "./chat-sql/create-chat-sql.ts";
import type { Core } from "./core.ts";
import type { Chat } from "./domain/chat/chat.ts";
import { createReceiptSigner } from "./domain/chat/receipt-signer.ts";
import { keepReceiptKey } from "./domain/chat/receipts.ts";
import { fleetThresholds, readFleetRules } from "./domain/fleet/report.ts";
import { runChatTurnJob } from "./jobs/run-chat-turn-job.ts";
import { withDatabaseFaults } from "./node/prepare-database.ts";
import { readKeyFile } from "./node/read-key-file.ts";
import { withConfigError } from "./node/with-config-error.ts";

/** The chat agent of a server. */
export interface StartedChat {
  chat: Chat;
  /** Ends its jobs and closes its connections, after `stopping` has aborted. */
  close(): Promise<void>;
}

/** A role that was created since the start lacks privileges of PUBLIC for this time at most. */
const grantsMs = 10_000;

type Needs = Pick<Core, "config" | "db" | "clock" | "entropy" | "log">;

/**
 * Creates the chat agent: loads the language model, the SQL tools and the key that signs receipts, and starts its jobs. Throws
 * `ConfigError` for a key that cannot be used, and for a key id that belongs to another key. Without the SQL tools it starts with a warning.
 */
export const startChat = async (
  core: Needs,
  {
    config,
    jobs,
    locate,
    stopping,
  }: { config: ChatConfig; jobs: Pick<Core, "db">; locate(): Promise<string>; stopping: AbortSignal },
): Promise<StartedChat> => {
  const { receiptKey } = config;
  const signer = await withConfigError("SVC_CHAT_RECEIPT_SIGNING_KEY_PATH", () =>
    createReceiptSigner(receiptKey && { pem: readKeyFile(receiptKey.file).toString("utf8"), id: receiptKey.id }),
  );
  if (!(await keepReceiptKey(core.db, { signer, clock: core.clock })))
    throw new ConfigError([
      {
        variable: "SVC_CHAT_RECEIPT_SIGNING_KEY_ID",
        message: "is the id of another key, which has signed receipts: give the new key a new id",
      },
    ]);
  if (receiptKey === null)
    core.log.warn(
      { key_id: signer.key.kid },
      "receipts of chat are signed with an ephemeral key: set SVC_CHAT_RECEIPT_SIGNING_KEY_PATH",
    );
  const { createInference } = await import("./inference/create-inference.ts");
  const { grantNewRoles, ...tools } = await createTools(core, { config, jobs, locate });
  const chat: Chat = {
    inference: await createInference(config.inference, core),
    ...tools,
    signer,
    stopping,
  };
  const turns = runChatTurnJob({ ...core, ...jobs }, chat, stopping);
  const grants = runEvery({ name: "chat grants", intervalMs: grantsMs, ...core, signal: stopping }, async () =>
    (await grantNewRoles()) ? { granted: true } : undefined,
  );
  return {
    chat,
    close: async () => {
      await Promise.all([turns, grants]);
      await chat.sql?.close();
    },
  };
};

const createTools = async (
  core: Needs,
  { config, jobs, locate }: { config: ChatConfig; jobs: Pick<Core, "db">; locate(): Promise<string> },
): Promise<Pick<Chat, "sql" | "sqlOffReason"> & Pick<CreatedChatSql, "grantNewRoles">> => {
  if (!config.sqlToolEnabled)
    return {
      sql: null,
      sqlOffReason: "SVC_CHAT_SQL_TOOL_ENABLED is false",
      grantNewRoles: () => Promise.resolve(false),
    };
  const { createChatSql } = await import("./chat-sql/create-chat-sql.ts");
  const { sql, offReason, warnings, grantNewRoles } = await withDatabaseFaults(() =>
    createChatSql({
      db: jobs.db,
      locate,
      url: config.sqlDatabaseUrl?.reveal() ?? null,
      secret: core.config.authTokenSecret.reveal(),
      thresholds: fleetThresholds(core.config),
      readRules: () => readFleetRules(core),
    }),
  );
  for (const warning of warnings) core.log.warn({}, warning);
  return { sql, sqlOffReason: offReason, grantNewRoles };
};
