import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { updateChatMessage } from "../../store/chat/messages.ts";
import { renewTurn } from "../../store/chat/sessions.ts";
import { findPerson } from "../../store/operator/operators.ts";
import type { BegunTurn } from "./begin-turn.ts";
import { type Draft, type TurnNeeds, turnLost } from "./run-turn.ts";

const renewMs = 2_000;

/**
 * Renews the lease of a turn and stores the text so far, every two seconds until `ended` aborts. Ends the turn when another core closed it,
 * and when its person was suspended or lost the scope.
 */
export const keepLease = ({
  core: { db, clock, log },
  turn,
  userId,
  draft,
  exclusive,
  ended,
  lost,
}: {
  core: Pick<Core, "db" | "clock" | "log">;
  turn: BegunTurn;
  userId: string;
  draft: Draft;
  exclusive: TurnNeeds["exclusive"];
  ended: AbortSignal;
  lost(reason: Problem): void;
}): void => {
  let storedTail = "";
  const renew = async (): Promise<void> => {
    if (ended.aborted) return;
    if (!(await renewTurn(db, { sessionId: turn.sessionId, turnId: turn.id }))) {
      lost(turnLost());
      return;
    }
    const person = await findPerson(db, userId);
    if (person?.status !== "active" || !person.scopes.includes("audit"))
      lost(new Problem("forbidden", { detail: "You may no longer use chat" }));
    const last = draft.parts.length > draft.stored ? draft.parts.at(-1) : undefined;
    const tail = last?.type === "text" ? last.text : "";
    if (tail !== storedTail) await updateChatMessage(db, turn.id, { tail });
    storedTail = tail;
  };
  const keep = async (): Promise<void> => {
    for (;;) {
      await clock.sleep(renewMs, ended);
      await exclusive(renew).catch((err: unknown) =>
        log.warn({ err }, "the lease of a chat turn was not renewed"),
      );
    }
  };
  keep().catch(() => undefined);
};
