import type { Core } from "#functions/core.ts";
import { verifyClientChain } from "#functions/domain/certificate/authenticate.ts";
import {
  type AdmitToken,
  type AdmittedToken,
  createAdmitToken,
  type EnrollCore,
} from "#functions/domain/enrollment/enroll.ts";
import { createRunOrRefuse } from "#functions/domain/enrollment/refuse.ts";
import type { HttpContext } from "#functions/http/request.ts";
import { bearerOf, route } from "#functions/http/route.ts";
import type { Guard } from "#functions/http/route-definition.ts";
import { agentMessageBytesMax } from "#functions/opamp/agent-message.ts";
import type { AgentCaller } from "#functions/opamp/agent-register.ts";
import { agentTurns, createAgentSession } from "#functions/opamp/agent-session.ts";
import { createAgentEnrollment } from "#functions/opamp/connection-settings.ts";
import { type AgentCore, createAgentRegister } from "#functions/opamp/create-agent-register.ts";
import { Problem } from "#functions/problems.ts";
import { acceptedCodings } from "#kit/compress-answer.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import {
  clientCertificateOf,
  type ManagementCore,
  managementProblems,
} from "./collector/collector-guard.ts";

/** Why a token does not serve to request a certificate. */
const admissionProblems = [
  "token_invalid",
  "policy_frozen",
  "source_not_allowed",
  "throttled",
  "issuer_unavailable",
  "enrollment_rate_limited",
  "signer_failed",
] as const;

const protobuf = "application/x-protobuf";

/** Below it, gzip saves nothing. */
const compressedBytesMin = 1_024;

const gzip = (bytes: Uint8Array<ArrayBuffer>) =>
  new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));

/** An encoded message, and its caller: by its certificate or, to request one, by a token. */
interface Poll {
  caller: AgentCaller | AdmittedToken;
  acceptsGzip: boolean;
  message: Uint8Array;
}

/**
 * `POST /v1/opamp`: an agent polls over plain HTTP. Its client certificate alone identifies it, as that of the
 * connection or, behind a proxy, that of the header. A token serves to request the first one.
 */
export const agentRoute = (
  core: ManagementCore & AgentCore & EnrollCore & Pick<Core, "log">,
  register = createAgentRegister(core),
) => {
  const turns = createTokenBuckets({ ...agentTurns, clock: core.clock });
  const runOrRefuse = createRunOrRefuse(core);
  const enroll = createAgentEnrollment(core, runOrRefuse);
  return route({
    method: "POST",
    path: "/v1/opamp",
    operationId: "pollOpamp",
    summary: "Exchange messages of OpAMP",
    guard: agentGuard(core, createAdmitToken(core, runOrRefuse)),
    replies: { 200: { description: "A ServerToAgent message", type: protobuf } },
    bytesBody: protobuf,
    problems: [...managementProblems, ...admissionProblems, "agent_message_invalid"],
    handle: async ({ caller: { caller, message, acceptsGzip }, origin }) => {
      if ("tokenId" in caller) {
        const content = await enroll(caller, message, origin);
        return { status: 200, bytes: { type: protobuf, content } };
      }
      const identityId = await register.admit(caller);
      const session = createAgentSession({
        ...core,
        identity: caller.identity,
        file: await register.open(caller, identityId, { isPoll: true }),
        turns,
        isPoll: true,
        onFailure: (err) => core.log.error({ err }, "a message of an agent failed"),
      });
      const { answer, fault } = await session.receive(message);
      // What the agent may send again later is told by the status of HTTP too.
      if (fault && fault.kind !== "malformed") throw fault;
      return acceptsGzip && answer.length >= compressedBytesMin
        ? {
            status: 200,
            headers: { "Content-Encoding": "gzip" },
            stream: { type: protobuf, content: gzip(answer) },
          }
        : { status: 200, bytes: { type: protobuf, content: answer } };
    },
  });
};

/** Admits an agent by its certificate or, without one, by a token, which serves to request one. */
const agentGuard = (core: ManagementCore, admitToken: AdmitToken): Guard<Poll> => {
  const callerOf = async (c: HttpContext): Promise<Poll["caller"]> => {
    const der = clientCertificateOf(c, core.config.clientCertificateHeader);
    const token = bearerOf(c);
    if (der === null && token !== undefined) return admitToken(token, c.get("origin"));
    if (der === null) throw new Problem("client_certificate_required");
    const { identity, fingerprintSha256, notAfter } = await verifyClientChain(core, der);
    const { remoteAddress } = c.get("peer");
    return { identity, fingerprintSha256, notAfter, remoteAddress };
  };
  return {
    describe: { kind: "agent" },
    bodyBytesMax: agentMessageBytesMax,
    acceptsGzip: true,
    async admit(c, body) {
      const caller = await callerOf(c);
      if (c.req.header("content-type")?.toLowerCase() !== protobuf)
        throw new Problem("unsupported_media_type", { detail: `Send the body as ${protobuf}` });
      const acceptsGzip = acceptedCodings(c.req.header("accept-encoding") ?? "").includes("gzip");
      return { caller, acceptsGzip, message: await body.bytes() };
    },
  };
};
