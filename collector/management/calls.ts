import * as v from "valibot";
import type { Secret } from "#kit/secret.ts";
import { CaBundleResponse, type CaChannel } from "#proto/management/ca-bundle.ts";
import { ConfigDesiredResponse } from "#proto/management/config-desired.ts";
import { type DiagRefusal, DiagResponse } from "#proto/management/diag.ts";
import { type CaBundle, CertificateIssued, type EnrollRequest } from "#proto/management/enroll.ts";
import { type HeartbeatReport, HeartbeatResponse } from "#proto/management/heartbeat.ts";
import {
  failureOfResponse,
  ManagementError,
  type ManagementResponse,
  parseObject,
} from "./management-error.ts";
import { type ManagementCaller, postSigned } from "./signed-request.ts";
import { postJson, type TransportOptions } from "./transport.ts";

/** Requests the first certificate with a bootstrap token. Throws `ManagementError`, which never contains the token. */
export const callEnroll = async (
  transport: TransportOptions,
  token: Secret,
  body: v.InferInput<typeof EnrollRequest>,
): Promise<CertificateIssued> =>
  parseResponse(
    CertificateIssued,
    await postJson(transport, { path: "/v1/collector/enroll", body, bearer: token.reveal() }),
  );

/** Requests a successor of the presented certificate. Throws `ManagementError`. */
export const callRenew = async (
  transport: TransportOptions,
  caller: ManagementCaller,
  body: { csr_pem: string; collector_version: string },
): Promise<CertificateIssued> =>
  parseResponse(
    CertificateIssued,
    await postSigned(transport, "renew", "/v1/collector/renew", caller, body),
  );

/** Sends one heartbeat. Throws `ManagementError`. */
export const callHeartbeat = async (
  transport: TransportOptions,
  caller: ManagementCaller,
  report: HeartbeatReport,
): Promise<HeartbeatResponse> =>
  parseResponse(
    HeartbeatResponse,
    await postSigned(transport, "heartbeat", "/v1/collector/heartbeat", caller, report),
  );

/** Fetches the config assigned to this host; without its text if that is `currentConfigId`. Throws `ManagementError`. */
export const callDesiredConfig = async (
  transport: TransportOptions,
  caller: ManagementCaller,
  currentConfigId: string | undefined,
): Promise<ConfigDesiredResponse> => {
  const fields = currentConfigId === undefined ? {} : { current_config_id: currentConfigId };
  const path = "/v1/collector/config/desired";
  return parseResponse(
    ConfigDesiredResponse,
    await postSigned(transport, "config_desired", path, caller, fields),
  );
};

/** Fetches the newest CA bundle of a channel, over a connection of that channel; null while none is published. Throws `ManagementError`. */
export const callCaBundle = async (
  transport: TransportOptions,
  caller: ManagementCaller,
  channel: CaChannel,
): Promise<CaBundle | null> => {
  const path = "/v1/collector/ca-bundle";
  const response = await postSigned(transport, "ca_bundle", path, caller, { channel });
  return parseResponse(CaBundleResponse, response).bundle;
};

/** Answers a request of core for diagnostics. Throws `ManagementError`. */
export const callDiag = async (
  transport: TransportOptions,
  caller: ManagementCaller,
  answer: { request_id: string; bundle?: string; refusal?: DiagRefusal },
): Promise<DiagResponse> =>
  parseResponse(
    DiagResponse,
    await postSigned(transport, "diag", "/v1/collector/diag", caller, answer),
  );

const parseResponse = <const Schema extends v.GenericSchema>(
  schema: Schema,
  response: ManagementResponse,
): v.InferOutput<Schema> => {
  if (response.status < 200 || response.status >= 300)
    throw new ManagementError(failureOfResponse(response));
  const result = v.safeParse(schema, parseObject(response));
  if (result.success) return result.output;
  throw new ManagementError({
    code: "answer_invalid",
    action: "stop",
    status: response.status,
    message: "the response is not one of core's; check that the URL is core's",
  });
};
