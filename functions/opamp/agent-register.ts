import type {
  AgentRemoteConfig,
  AgentToServer,
  ConnectionSettingsOffers,
} from "#proto/gen/opamp/v1/opamp_pb.js";

/** The host of an agent, by the certificate that TLS or the proxy has verified. */
export interface AgentCaller {
  identity: string;
  /** SHA-256 of the DER, lowercase hex. */
  fingerprintSha256: string;
  /** Milliseconds since the epoch. */
  notAfter: number;
  remoteAddress: string;
}

/** The last message that core has taken from an agent. */
export interface LastMessage {
  instanceUid: Uint8Array;
  sequenceNum: bigint;
  capabilities: bigint;
}

/** What core sends to an agent beside the acknowledgement. */
export interface AgentOffer {
  remoteConfig?: AgentRemoteConfig;
  connectionSettings?: ConnectionSettingsOffers;
  /** Another agent has this `instance_uid`. */
  isUidTaken?: boolean;
  /** Core has the status of another instance, to which the message adds nothing. */
  needsFullStatus?: boolean;
  /** Core has the hash of the agent's components, but not the components. */
  needsAvailableComponents?: boolean;
  /** An admin has requested a restart. It is offered once. */
  restart?: boolean;
}

/** The agent of one identity: for one poll, or for the life of a socket. */
export interface AgentFile {
  /** Undefined before the first message. */
  last: LastMessage | undefined;
  /** Stores what a message changes, and the host's report. An agent that stops says so in its last message. */
  take(message: AgentToServer): Promise<AgentOffer>;
  /** Counts a heartbeat: of a poll for each, of a socket once in an interval. `sequenceNum` is that of a poll. */
  seen(sequenceNum?: bigint): Promise<AgentOffer>;
  /** Counts a heartbeat, and decides again what core has for the agent: something was assigned to it, or requested of it. */
  review(): Promise<AgentOffer>;
  /** Returns a certificate for a request in PEM, as the renewal of the caller's. Throws a Problem. */
  sign(csrPem: string): Promise<ConnectionSettingsOffers>;
  /** Audits that two agents use this identity at the same time. */
  cloneSuspected(reason: string): Promise<void>;
}

/** Where agents are decided on and stored. */
export interface AgentRegister {
  /** How often an agent must be seen. */
  intervalSeconds: number;
  /** Returns the id of the caller's identity, or throws why it may not connect. */
  admit(caller: AgentCaller): Promise<string>;
  open(caller: AgentCaller, identityId: string, of: { isPoll: boolean }): Promise<AgentFile>;
}
