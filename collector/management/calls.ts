import * as v from "valibot";
import type { Secret } from "../../kit/secret.ts";
import { ConfigDesiredResponse } from "../../proto/management/config-desired.ts";
import { CertificateIssued, type EnrollRequest } from "../../proto/management/enroll.ts";
import { type HeartbeatReport, HeartbeatResponse } from "../../proto/management/heartbeat.ts";
import type { ProofPurpose } from "../../proto/management/proof.ts";
import type { Credentials } from "../identity/credentials.ts";
import { type Answer, failureOf, ManagementError, parseObject } from "./management-error.ts";
import type { SentAt } from "./sent-at.ts";
import { signBody } from "./sign-proof.ts";
import { postJson, type TransportOptions } from "./transport.ts";

/** Asks for the first certificate with a bootstrap token. Throws `ManagementError`; the token is in none. */
export const callEnroll = async (
  transport: TransportOptions,
  token: Secret,
  body: EnrollRequest,
): Promise<CertificateIssued> =>
  parseAnswer(
    CertificateIssued,
    await postJson(transport, { path: "/v1/collector/enroll", body, bearer: token.reveal() }),
  );

/** Who makes a management request: the pair that is presented and that signs, and the clock of its purpose. */
export interface Caller {
  pair: Credentials;
  sentAt: SentAt;
  signal?: AbortSignal;
}

/** Asks for a successor of the presented certificate. Throws `ManagementError`. */
export const callRenew = async (
  transport: TransportOptions,
  caller: Caller,
  body: { csr_pem: string; collector_version: string },
): Promise<CertificateIssued> =>
  parseAnswer(CertificateIssued, await postSigned(transport, "renew", "/v1/collector/renew", caller, body));

/** Sends one heartbeat. Throws `ManagementError`. */
export const callHeartbeat = async (
  transport: TransportOptions,
  caller: Caller,
  report: HeartbeatReport,
): Promise<HeartbeatResponse> =>
  parseAnswer(HeartbeatResponse, await postSigned(transport, "heartbeat", "/v1/collector/heartbeat", caller, report));

/** Fetches the config that is assigned to this host; without its text if that is `currentConfigId`. Throws `ManagementError`. */
export const callDesiredConfig = async (
  transport: TransportOptions,
  caller: Caller,
  currentConfigId: string | undefined,
): Promise<ConfigDesiredResponse> => {
  const fields = currentConfigId === undefined ? {} : { current_config_id: currentConfigId };
  const path = "/v1/collector/config/desired";
  return parseAnswer(ConfigDesiredResponse, await postSigned(transport, "config_desired", path, caller, fields));
};

/**
 * Signs and posts; once more if core knows a newer `sent_at`, as after this host's clock went back and its file was lost. A heartbeat is
 * also sent once more by core's clock if this host's is wrong, as it may be what tells core that renewals fail for that (case R7). No
 * renewal is: a clock that is weeks ahead would find every new certificate due at once.
 */
const postSigned = async (
  transport: TransportOptions,
  purpose: ProofPurpose,
  path: string,
  { pair, sentAt, signal }: Caller,
  fields: object,
): Promise<Answer> => {
  const post = async () =>
    postJson(transport, {
      path,
      body: signBody(purpose, pair, { sent_at: await sentAt.next(), ...fields }),
      credentials: pair,
      ...(signal === undefined ? {} : { signal }),
    });
  const answer = await post();
  const { lastSentAt, serverTime } = [401, 409].includes(answer.status) ? failureOf(answer) : {};
  if (lastSentAt !== undefined) sentAt.adopt(lastSentAt);
  else if (serverTime !== undefined && purpose === "heartbeat") sentAt.follow(serverTime);
  else return answer;
  return post();
};

const parseAnswer = <const Schema extends v.GenericSchema>(schema: Schema, answer: Answer): v.InferOutput<Schema> => {
  if (answer.status < 200 || answer.status >= 300) throw new ManagementError(failureOf(answer));
  const result = v.safeParse(schema, parseObject(answer));
  if (result.success) return result.output;
  throw new ManagementError({
    code: "answer_invalid",
    action: "stop",
    status: answer.status,
    message: "the answer is not what core would say; is this core's URL?",
  });
};
