import * as v from "valibot";
import { webSubject } from "../../proto/operator/bridge-token.ts";
import type { Scope } from "../../proto/operator/scopes.ts";
import { Whoami } from "../../proto/operator/whoami.ts";
import { createBridge } from "./bridge.ts";
import { Problem } from "./problems.ts";
import type { Web } from "./web.ts";

/** A request to core. */
export interface CoreCall {
  method?: "GET" | "POST" | "DELETE";
  /** After `SVC_API_URL`, with its query: `/whoami`. */
  path: string;
  /** The person in whose name it is made; web itself unless told. */
  userId?: string;
  requestId: string;
  accept?: string;
  json?: Uint8Array<ArrayBuffer>;
  /** Ends the call when the browser is gone before core answered; after that, cancelling the body does. */
  signal?: AbortSignal;
}

/** A person as core sees them at this moment. */
export interface PersonOfCore {
  userId: string;
  email: string;
  scopes: Scope[];
}

/** How a sign-in ended, for the audit log. */
export type SignIn =
  | { outcome: "success"; userId: string; remoteAddress: string }
  | { outcome: "failure"; reasonCode: string; userId: string | null; subject: string | null; remoteAddress: string };

/** Calls core with a bridge token minted for the call. */
export interface CoreClient {
  /** The answer, whatever its status, its body unread. Throws `core_unavailable` when there is none within 30 s. */
  call(call: CoreCall): Promise<Response>;
  /** Null when core refuses the person (401). */
  whoami(userId: string, requestId: string): Promise<PersonOfCore | null>;
  /** Records a sign-in in the audit log. Throws `core_unavailable` when core does not confirm it. */
  recordSignIn(signIn: SignIn, requestId: string): Promise<void>;
}

/** Until the answer's headers; a stream may then go on for as long as it likes. */
const headersTimeoutMs = 30_000;

/** A newer core may say more. */
const WhoamiAnswer = v.object(Whoami.entries);

/** Makes the client of `SVC_API_URL`. */
export const createCoreClient = ({ config, clock, fetch }: Pick<Web, "config" | "clock" | "fetch">): CoreClient => {
  const mint = createBridge({ config, clock });

  const call: CoreClient["call"] = async ({
    method = "GET",
    path,
    userId = webSubject,
    requestId,
    signal: browser,
    ...rest
  }) => {
    // Nothing of the browser's request but this: no cookie, no address, no header of its own.
    const headers: Record<string, string> = {
      Authorization: `Bearer ${await mint(userId)}`,
      Accept: rest.accept ?? "application/json",
      "X-Request-Id": requestId,
      ...(rest.json === undefined ? {} : { "Content-Type": "application/json" }),
    };
    const stop = new AbortController();
    const answered = new AbortController();
    const stopNow = () => stop.abort();
    clock.sleep(headersTimeoutMs, answered.signal).then(stopNow, () => undefined);
    browser?.addEventListener("abort", stopNow, { once: true, signal: answered.signal });
    try {
      return await fetch(`${config.apiUrl}${path}`, {
        method,
        headers,
        redirect: "error",
        signal: stop.signal,
        ...(rest.json === undefined ? {} : { body: rest.json }),
      });
    } catch (cause) {
      throw new Problem("core_unavailable", { cause });
    } finally {
      answered.abort();
    }
  };

  return {
    call,
    whoami: async (userId, requestId) => {
      const response = await call({ path: "/whoami", userId, requestId });
      if (response.status === 401) return null;
      const view = v.safeParse(WhoamiAnswer, response.ok ? await response.json() : undefined);
      if (!view.success)
        throw new Problem("core_unavailable", { cause: new Error(`whoami: status ${response.status}`) });
      const { user_id, email, scopes } = view.output;
      return { userId: user_id, email, scopes };
    },
    recordSignIn: async (signIn, requestId) => {
      const body =
        signIn.outcome === "success"
          ? { outcome: signIn.outcome, remote_addr: signIn.remoteAddress }
          : {
              outcome: signIn.outcome,
              reason_code: signIn.reasonCode,
              user_id: signIn.userId,
              subject: signIn.subject,
              remote_addr: signIn.remoteAddress,
            };
      const response = await call({
        method: "POST",
        path: "/operator/sign-ins",
        ...(signIn.outcome === "success" ? { userId: signIn.userId } : {}),
        requestId,
        json: new TextEncoder().encode(JSON.stringify(body)),
      });
      await response.body?.cancel();
      if (!response.ok)
        throw new Problem("core_unavailable", { cause: new Error(`sign-in record: status ${response.status}`) });
    },
  };
};
