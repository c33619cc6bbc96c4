import type { Core } from "#functions/core.ts";
import { auditChainStatus } from "#functions/domain/audit/verify-chain.ts";
import { scope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { AuditChainView } from "#proto/audit-event.ts";

/** `GET /v1/audit-events/chain`: the head of the hash chain, and how much of it core has recomputed. */
export const auditChainRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/audit-events/chain",
    operationId: "getAuditChain",
    summary: "The head of the audit log's hash chain, and up to which event core has verified it",
    guard: scope(core, "audit"),
    replies: { 200: { description: "The state of the chain", schema: AuditChainView } },
    handle: async () => {
      const { head, pending, verification } = await auditChainStatus(core);
      const body: AuditChainView = {
        head: head ? { seq: head.seq, hash: head.hash.toHex() } : null,
        pending,
        verified:
          verification && verification.seq > 0
            ? {
                seq: verification.seq,
                hash: verification.hash.toHex(),
                checked_at: verification.checkedAt.toISOString(),
                checked_since: verification.checkedSince.toISOString(),
              }
            : null,
        fault:
          verification?.faultKind && verification.faultSeq !== null
            ? { kind: verification.faultKind, seq: verification.faultSeq }
            : null,
      };
      return { status: 200, body };
    },
  });
