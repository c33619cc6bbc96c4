import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import type { WebCaller } from "../operator/authenticate.ts";
import { type Origin, operatorActor, recordAudit } from "./audit-log.ts";
import { recordRefusals } from "./record-refusals.ts";

/** The outcome of a sign-in; a failure names the person as far as web knows. */
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
 * Writes the audit event of a sign-in at web, with the remote address that web saw. Web reports a success with the person's bridge token
 * and a failure with its own; throws 403 `forbidden` otherwise.
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
    if (caller === null) throw new Problem("forbidden", { detail: "Report a success with the person's bridge token" });
    const target = { type: "person", id: caller.userId };
    await db.transaction((tx) =>
      recordAudit(tx, { clock, entropy }, { ...entry, actor: operatorActor(caller), target }),
    );
    return;
  }
  if (caller !== null) throw new Problem("forbidden", { detail: "Report a failure with web's own bridge token" });
  const { userId, subject, reasonCode } = signIn;
  await db.transaction((tx) =>
    recordRefusals(tx, { clock, entropy }, [
      {
        actor: { type: "system", id: "web", display: "web" },
        action: "operator.sign_in",
        target: { type: "person", id: userId ?? "" },
        // The first event of each unknown person holds their subject, from which an operator may learn it.
        about: userId ?? subject ?? "",
        reasonCode,
        origin,
        details: { subject },
      },
    ]),
  );
};
