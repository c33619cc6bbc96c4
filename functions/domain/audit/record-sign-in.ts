import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import type { WebCaller } from "../operator/authenticate.ts";
import { type Origin, operatorActor, recordAudit } from "./audit-log.ts";

/** How a sign-in ended. Of a refused one, whom it was about as far as web knows. */
export type SignIn =
  | { outcome: "success"; remoteAddress: string }
  | {
      outcome: "failure";
      reasonCode: string;
      remoteAddress: string;
      userId: string | null;
      subject: string | null;
    };

/**
 * Writes the audit event of a sign-in at web. A success is recorded in the person's own name, a refusal in web's; the other way
 * round is 403 `forbidden`. The address is the one that web saw.
 */
export const recordSignIn = async (
  { db, clock, entropy }: Pick<Core, "db" | "clock" | "entropy">,
  caller: WebCaller,
  signIn: SignIn,
  { requestId }: Pick<Origin, "requestId">,
): Promise<void> => {
  const origin = { requestId, remoteAddress: signIn.remoteAddress };
  const entry = { action: "operator.sign_in", outcome: signIn.outcome, origin } as const;
  if (signIn.outcome === "success") {
    if (caller === null) throw new Problem("forbidden", { detail: "A success is recorded in the person's name" });
    const target = { type: "person", id: caller.userId };
    await db.transaction((tx) =>
      recordAudit(tx, { clock, entropy }, { ...entry, actor: operatorActor(caller), target }),
    );
    return;
  }
  if (caller !== null) throw new Problem("forbidden", { detail: "A refusal is recorded in web's name" });
  const { userId, subject, reasonCode } = signIn;
  await db.transaction((tx) =>
    recordAudit(
      tx,
      { clock, entropy },
      {
        ...entry,
        actor: { type: "system", id: "web", display: "web" },
        target: { type: "person", id: userId ?? "" },
        reasonCode,
        details: { subject },
      },
    ),
  );
};
