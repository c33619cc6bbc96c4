import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import type { Chat } from "../domain/chat/chat.ts";
import { closeExpiredTurns } from "../domain/chat/close-turn.ts";

const intervalMs = 3_000;

/** Closes the turns of chat whose core was killed, at once and every few seconds, until the signal aborts. */
export const runChatTurnJob = (
  core: Pick<Core, "db" | "clock" | "log">,
  chat: Pick<Chat, "signer">,
  signal: AbortSignal,
): Promise<void> =>
  runEvery({ name: "chat turns", intervalMs, clock: core.clock, signal, log: core.log }, () =>
    closeExpiredTurns(core, chat),
  );
