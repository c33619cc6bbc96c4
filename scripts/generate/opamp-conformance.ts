import { namedTests } from "../reliability/cases.ts";
import { markdownTable } from "./markdown.ts";

type Level = "MUST" | "MUST NOT" | "SHOULD";

/** What the specification demands of a server. */
interface Demand {
  section: string;
  level: Level;
  demand: string;
  how: string;
  /** The name of the test that shows it; absent where core does not do it. */
  test?: string;
}

const answersBad = "answers that the request is bad to a message with %s";
const answersAll = "answers any bytes with one message";
const requestsMissed = "of %s requests what it has missed";
const setsCapabilities = "sets its capabilities in the first message and omits them later";
const acceptsOnly = "sends a restart alone, and nothing that the agent does not accept";
const bodies = "takes bodies that gzip has compressed, and none over the limit before or after";
const assigns = "assigns an instance_uid on request, and one that another host has";
const identifies =
  "identifies an agent by the certificate of its connection, or of the proxy's header";

/** The demands of OpAMP 0.20 on a server, in its order. */
const demands: readonly Demand[] = [
  {
    section: "Communication Model",
    level: "SHOULD",
    demand: "accept plain HTTP and WebSocket",
    how: "one path, `/v1/opamp`, on the ingest port",
    test: "answers each message, and asks the register only about news",
  },
  {
    section: "Communication Model",
    level: "SHOULD",
    demand: "listen on port 4320 by default",
    how: "no: the ingest port, which the agent's config names",
  },
  {
    section: "WebSocket Message Format",
    level: "SHOULD",
    demand: "take another header than 0 as malformed",
    how: "bad request",
    test: answersBad,
  },
  {
    section: "WebSocket Message Size Limits",
    level: "SHOULD",
    demand: "let limits be configured",
    how: "no: 512 KiB",
  },
  {
    section: "WebSocket Message Size Limits",
    level: "MUST",
    demand: "limit what it receives, and close with 1009",
    how: "512 KiB, 160 fragments, no compression",
    test: "closes a socket for text, for too large a message, and for too many bad ones",
  },
  {
    section: "WebSocket Message Size Limits",
    level: "MUST NOT",
    demand: "send more than its limit, and record it",
    how: "512 KiB; the agent gets an error, the log the cause",
    test: "sends no message over the limit",
  },
  {
    section: "Plain HTTP Transport",
    level: "MUST",
    demand: "honour `Content-Encoding`, with and without gzip",
    how: "others are 415",
    test: bodies,
  },
  {
    section: "Plain HTTP Transport",
    level: "SHOULD",
    demand: "compress the response for an agent that accepts it",
    how: "gzip, from 1 KiB on",
    test: "compresses long answers for an agent that accepts it",
  },
  {
    section: "Plain HTTP Message Size Limits",
    level: "MUST",
    demand: "limit bodies, also decompressed, by 413",
    how: "512 KiB",
    test: bodies,
  },
  {
    section: "Plain HTTP Message Size Limits",
    level: "MUST NOT",
    demand: "send a response over its limit",
    how: "as over WebSocket",
    test: "sends no message over the limit",
  },
  {
    section: "AgentToServer.capabilities",
    level: "MUST",
    demand: "respect changed capabilities",
    how: "those of the newest message count",
    test: "sends at once what core has for a host, and only what the agent accepts",
  },
  {
    section: "ServerToAgent.instance_uid",
    level: "MUST",
    demand: "return the agent's `instance_uid`",
    how: "in each message",
    test: requestsMissed,
  },
  {
    section: "ServerToAgent.capabilities",
    level: "MUST",
    demand: "set them first, with AcceptsStatus, no undefined bit",
    how: "once in a session",
    test: setsCapabilities,
  },
  {
    section: "ServerToAgent.agent_identification",
    level: "MUST",
    demand: "assign an `instance_uid` of 16 bytes",
    how: "UUIDv7",
    test: assigns,
  },
  {
    section: "Status Reporting",
    level: "MUST",
    demand: "respond to each AgentToServer",
    how: "one message for each",
    test: answersAll,
  },
  {
    section: "Status Reporting",
    level: "MUST",
    demand: "set `error_response` on failure, and only then",
    how: "by the code of the problem",
    test: answersAll,
  },
  {
    section: "Agent Status Compression",
    level: "MUST",
    demand: "request what it has missed by ReportFullState",
    how: "on a gap, at most every 10 s",
    test: requestsMissed,
  },
  {
    section: "RemoteConfigStatus.last_remote_config_hash",
    level: "MUST",
    demand: "send the config when the agent's hash differs",
    how: "at once, and again at most each minute",
    test: "is offered once, and again a minute later while the agent's hash does not settle",
  },
  {
    section: "ConnectionSettingsStatus",
    level: "MUST",
    demand: "send settings again when the agent's hash differs",
    how: "no: certificates are sent on request",
  },
  {
    section: "PackageStatuses",
    level: "SHOULD",
    demand: "offer packages whose hash differs",
    how: "no: core offers no packages",
  },
  {
    section: "Own Telemetry Reporting",
    level: "SHOULD",
    demand: "offer a destination, if there is one",
    how: "there is none: core receives no OTLP",
  },
  {
    section: "Configuration",
    level: "MUST NOT",
    demand: "offer a config without AcceptsRemoteConfig",
    how: "by the agent's newest capabilities",
    test: acceptsOnly,
  },
  {
    section: "WebSocket Transport, Server Initiated",
    level: "MUST",
    demand: "close with a Close frame",
    how: "with a code, after an error that says why",
    test: "ends its sockets when it stops, and says that the agent may come back",
  },
  {
    section: "Duplicate WebSocket Connections",
    level: "SHOULD",
    demand: "detect duplicates, and assign another `instance_uid`",
    how: "a ping finds the second live agent of a certificate",
    test: "finds that two agents use one certificate, and gives the second another instance_uid",
  },
  {
    section: "Duplicate instance_uid Detection",
    level: "SHOULD",
    demand: "assign another `instance_uid`",
    how: "to the later host; of two that poll, by their numbers",
    test: "finds two agents that poll with one certificate and one instance_uid, by their numbers",
  },
  {
    section: "Agent-initiated CSR Flow",
    level: "MUST",
    demand: "answer a request that it does not sign with a bad request",
    how: "with the code of the refusal",
    test: "serves a token nothing else, and says why it issues no certificate",
  },
  {
    section: "Using instance_uid in the CSR",
    level: "MUST",
    demand: "compare an instance_uid in a request with the agent's",
    how: "does not apply: requests name the identity alone",
  },
  {
    section: "Authentication",
    level: "MUST",
    demand: "respond with 401, before an upgrade",
    how: "client certificates alone",
    test: "refuses to upgrade without a certificate, for a revoked one, and what is no WebSocket",
  },
  {
    section: "Authentication",
    level: "MUST",
    demand: "respond with 401 over HTTP",
    how: "the connection's certificate, or the proxy's header",
    test: identifies,
  },
  {
    section: "Bad Request",
    level: "MUST",
    demand: "answer BAD_REQUEST with a reason",
    how: "the reason quotes nothing of the message",
    test: answersBad,
  },
  {
    section: "Retrying Messages",
    level: "MUST",
    demand: "respond to a message that comes again",
    how: "as to a gap, with the config that was due",
    test: "sends again what a lost connection, or a lost answer to a poll, did not deliver",
  },
  {
    section: "Throttling",
    level: "SHOULD",
    demand: "answer UNAVAILABLE when overloaded",
    how: "with `retry_info`; over HTTP 429 or 503",
    test: "answers each message of an agent that sends too many, and says when to come back",
  },
  {
    section: "Interoperability of Partial Implementations",
    level: "MUST",
    demand: "use no capability that the agent lacks",
    how: "it gets neither configs nor restarts",
    test: acceptsOnly,
  },
];

const head = `# Conformance to OpAMP

Generated by \`npx -y bun@1.4.5 run generate\` from \`scripts/generate/opamp-conformance.ts\`: what
[OpAMP 0.20](https://github.com/open-telemetry/opamp-spec/blob/main/specification.md) demands of a server, and the test that shows it. Demands on
agents are left out.`;

/** Renders the page of the demands of OpAMP. Throws when a test that a demand names does not exist. */
export const renderOpampConformance = (): string => {
  const tests = namedTests(
    "functions/opamp/*.test.ts",
    "functions/v1/opamp*.test.ts",
    "functions/node/ingest/agent-*.test.ts",
  );
  const files = new Map(tests.map(({ name, file }) => [name, file]));
  const rows = demands.map(({ section, level, demand, how, test }) => {
    if (test === undefined) return [section, level, demand, how, "—"];
    const file = files.get(test);
    if (file === undefined) throw new Error(`no test is named: ${test}`);
    return [section, level, demand, how, `\`${file}\``];
  });
  const tested = demands.filter(({ test }) => test !== undefined).length;
  const count = `${tested} of ${demands.length} have a test.`;
  const table = markdownTable(["section", "level", "demand", "how", "test"], rows);
  return `${head} ${count}\n\n${table}\n`;
};
