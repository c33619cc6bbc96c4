import type { ServerResponse } from "node:http";
import {
  apiError,
  type DirectoryApi,
  type DirectoryCall,
  type DirectoryReply,
  sendReply,
  startDirectoryApi,
} from "#scripts/lab/directory-api.ts";

/** How a call fails: with an error of the API, or with a 200 whose body is wrong. */
export type DirectoryFaultKind =
  | { status: 401 | 403 | 404 | 429 | 500 | 503; reason?: string }
  /** The right response, delayed. */
  | { delayMs: number }
  /** Another text. */
  | { text: string }
  /** Half of the JSON, in well-formed HTTP. */
  | "truncated"
  /** The connection ends within the body. */
  | "cut"
  /** An empty JSON object. */
  | "empty"
  /** No response. */
  | "silent";

/** Which calls fail. Absent fields match every call of this kind. */
export interface PlannedFault extends DirectoryCall {
  how: DirectoryFaultKind;
}

/** The lab's directory API, whose calls can be made to fail. */
export interface FaultyDirectory extends DirectoryApi {
  /** Makes matching calls fail from now on; without a fault, none. */
  fail(...faults: readonly PlannedFault[]): void;
}

/** Starts one without faults. */
export const startFaultyDirectory = async (
  options: { pageSize?: number } = {},
): Promise<FaultyDirectory> => {
  let faults: readonly PlannedFault[] = [];
  const directory = await startDirectoryApi({
    ...options,
    send: (response, reply, { on, page, group }) => {
      const fault = faults.find(
        (planned) =>
          planned.on === on &&
          (planned.page ?? page) === page &&
          (planned.group ?? group) === group,
      );
      respond(response, fault?.how, reply);
    },
  });
  return {
    ...directory,
    fail: (...planned) => {
      faults = planned;
    },
  };
};

const respond = (
  response: ServerResponse,
  fault: DirectoryFaultKind | undefined,
  reply: DirectoryReply,
): void => {
  if (fault === "silent") return;
  if (fault === "truncated" || fault === "cut") sendHalf(response, reply, fault);
  else if (fault === undefined) sendReply(response, reply);
  else if (fault === "empty") sendReply(response, { ...reply, body: {} });
  else if ("text" in fault)
    response.writeHead(200, { "Content-Type": "application/json" }).end(fault.text);
  else if ("delayMs" in fault) setTimeout(() => sendReply(response, reply), fault.delayMs).unref();
  else sendReply(response, apiError(fault.status, fault.reason ?? "fault", "As planned"));
};

const sendHalf = (
  response: ServerResponse,
  { status, body }: DirectoryReply,
  how: "truncated" | "cut",
) => {
  const whole = Buffer.from(JSON.stringify(body));
  const half = whole.subarray(0, whole.length >> 1);
  response.writeHead(status, {
    "Content-Type": "application/json; charset=UTF-8",
    "Content-Length": how === "cut" ? whole.length : half.length,
  });
  response.write(half, () => (how === "cut" ? response.destroy() : response.end()));
};
