import type { Core } from "#functions/core.ts";
import { verifyClientChain } from "#functions/domain/certificate/authenticate.ts";
import { route } from "#functions/http/route.ts";
import type { Guard } from "#functions/http/route-definition.ts";
import { agentMessageBytesMax } from "#functions/opamp/agent-message.ts";
import type { AgentCaller } from "#functions/opamp/agent-register.ts";
import { agentTurns, createAgentSession } from "#functions/opamp/agent-session.ts";
import { type AgentCore, createAgentRegister } from "#functions/opamp/create-agent-register.ts";
import { Problem } from "#functions/problems.ts";
import { acceptedCodings } from "#kit/compress-answer.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import {
  clientCertificateOf,
  type ManagementCore,
  managementProblems,
} from "./collector/collector-guard.ts";

const protobuf = "application/x-protobuf";

/** Below it, gzip saves nothing. */
const compressedBytesMin = 1_024;

const gzip = (bytes: Uint8Array<ArrayBuffer>) =>
  new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));

/** The caller and its encoded message. */
interface Poll {
  caller: AgentCaller;
  acceptsGzip: boolean;
  message: Uint8Array;
}

/**
 * `POST /v1/opamp`: an agent polls over plain HTTP Its client certificate alone identifies it, as that of the
 * connection or, behind a proxy, that of the header.
 */
export const agentRoute = (
  core: ManagementCore & AgentCore & Pick<Core, "log">,
  register = createAgentRegister(core),
) => {
  const turns = createTokenBuckets({ ...agentTurns, clock: core.clock });
  return route({
    method: "POST",
    path: "/v1/opamp",
    operationId: "pollOpamp",
    summary: "Exchange messages of OpAMP",
    guard: agentGuard(core),
    replies: { 200: { description: "A ServerToAgent message", type: protobuf } },
    bytesBody: protobuf,
    problems: [...managementProblems, "agent_message_invalid"],
    handle: async ({ caller: { caller, message, acceptsGzip } }) => {
      const identityId = await register.admit(caller);
      const session = createAgentSession({
        ...core,
        identity: caller.identity,
        file: await register.open(caller, identityId),
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

const agentGuard = (core: ManagementCore): Guard<Poll> => ({
  describe: { kind: "agent" },
  bodyBytesMax: agentMessageBytesMax,
  acceptsGzip: true,
  async admit(c, body) {
    const der = clientCertificateOf(c, core.config.clientCertificateHeader);
    if (der === null) throw new Problem("client_certificate_required");
    const { identity, fingerprintSha256, notAfter } = await verifyClientChain(core, der);
    if (c.req.header("content-type")?.toLowerCase() !== protobuf)
      throw new Problem("unsupported_media_type", { detail: `Send the body as ${protobuf}` });
    const { remoteAddress } = c.get("peer");
    return {
      caller: { identity, fingerprintSha256, notAfter, remoteAddress },
      acceptsGzip: acceptedCodings(c.req.header("accept-encoding") ?? "").includes("gzip"),
      message: await body.bytes(),
    };
  },
});
