import type { Core } from "../core.ts";
import type { Route } from "../http/route.ts";
import { scimRoutesOf } from "../scim/index.ts";
import { auditChainRoute } from "./audit-events/chain.ts";
import { auditCsvRoute, auditLinesRoute } from "./audit-events/export.ts";
import { listAuditEventsRoute } from "./audit-events/list.ts";
import { receiptKeysRoute } from "./chat/receipt-keys.ts";
import { createConversationRoute } from "./chat/sessions/create.ts";
import { deleteConversationRoute } from "./chat/sessions/delete.ts";
import { getConversationRoute } from "./chat/sessions/get.ts";
import { listConversationsRoute } from "./chat/sessions/list.ts";
import { sendMessageRoute } from "./chat/sessions/messages.ts";
import { listReceiptsRoute } from "./chat/sessions/receipts.ts";
import { renameConversationRoute } from "./chat/sessions/rename.ts";
import { chatStatusRoute } from "./chat/status.ts";
import { getAppliedSetRoute } from "./collector/applied-sets/get.ts";
import { putAppliedSetRoute } from "./collector/applied-sets/put.ts";
import { deleteBudgetRoute, putBudgetRoute } from "./collector/budgets/change.ts";
import { listBudgetsRoute } from "./collector/budgets/list.ts";
import { revokeCertificateRoute } from "./collector/certificates/revoke.ts";
import { exportCompletenessRoute } from "./collector/completeness/export.ts";
import { fleetCompletenessRoute } from "./collector/completeness/report.ts";
import { readStatementRoute } from "./collector/completeness/statement.ts";
import { configDesiredRoute } from "./collector/config-desired.ts";
import { assignConfigToManyRoute } from "./collector/configs/assign-many.ts";
import { exportAssignmentsRoute, exportConfigsRoute } from "./collector/configs/export.ts";
import { getConfigRoute } from "./collector/configs/get.ts";
import { listConfigsRoute } from "./collector/configs/list.ts";
import { listAssignmentsRoute } from "./collector/configs/list-assignments.ts";
import { listUnstoredConfigsRoute } from "./collector/configs/list-unstored.ts";
import { previewRolloutRoute } from "./collector/configs/preview.ts";
import { publishConfigRoute } from "./collector/configs/publish.ts";
import { rollBackConfigsRoute } from "./collector/configs/roll-back-many.ts";
import { diagRoute } from "./collector/diag.ts";
import { enrollRoute } from "./collector/enroll.ts";
import { exportPoliciesRoute, exportRefusalsRoute, exportTokensRoute } from "./collector/enrollment/export.ts";
import { enrollmentReportRoute } from "./collector/enrollment/report.ts";
import { createPolicyRoute } from "./collector/enrollment-policies/create.ts";
import { createTokenRoute } from "./collector/enrollment-policies/create-token.ts";
import { freezePolicyRoute } from "./collector/enrollment-policies/freeze.ts";
import { getPolicyRoute } from "./collector/enrollment-policies/get.ts";
import { listPoliciesRoute } from "./collector/enrollment-policies/list.ts";
import { listTokensRoute } from "./collector/enrollment-policies/list-tokens.ts";
import { simulateEnrollmentRoute } from "./collector/enrollment-policies/simulate.ts";
import { healthAheadRoute } from "./collector/health/ahead.ts";
import { healthChangesRoute } from "./collector/health/changes.ts";
import { healthComparisonRoute } from "./collector/health/comparison.ts";
import { healthExportRoute } from "./collector/health/export.ts";
import { healthFacetsRoute } from "./collector/health/facets.ts";
import { healthFactorsRoute } from "./collector/health/factors.ts";
import { healthDetailRoute } from "./collector/health/get.ts";
import { healthReportRoute } from "./collector/health/report.ts";
import { healthTimelineRoute } from "./collector/health/timeline.ts";
import { healthVolumeRoute } from "./collector/health/volume.ts";
import { heartbeatRoute } from "./collector/heartbeat.ts";
import { hostCompletenessRoute } from "./collector/hosts/completeness.ts";
import { getDiagRoute, readDiagRoute, requestDiagRoute } from "./collector/hosts/diags.ts";
import { readEnvelopesRoute } from "./collector/hosts/envelopes.ts";
import { nudgeHostRoute } from "./collector/hosts/nudge.ts";
import { closeHostQueueRoute, listHostQueuesRoute } from "./collector/hosts/queues.ts";
import { assignConfigRoute, clearConfigRoute, rollBackConfigRoute } from "./collector/identities/desired-config.ts";
import { getIdentityRoute } from "./collector/identities/get.ts";
import { listIdentitiesRoute } from "./collector/identities/list.ts";
import { listCertificatesRoute } from "./collector/identities/list-certificates.ts";
import { revokeIdentityRoute } from "./collector/identities/revoke.ts";
import { listInventoryRoute } from "./collector/inventory/list.ts";
import { putInventoryRoute } from "./collector/inventory/put.ts";
import { renewRoute } from "./collector/renew.ts";
import {
  abortRolloutRoute,
  pauseRolloutRoute,
  resumeRolloutRoute,
  rollBackRolloutRoute,
} from "./collector/rollouts/control.ts";
import { createRolloutRoute } from "./collector/rollouts/create.ts";
import { exportRolloutTargetsRoute } from "./collector/rollouts/export.ts";
import { getRolloutRoute } from "./collector/rollouts/get.ts";
import { listRolloutsRoute } from "./collector/rollouts/list.ts";
import { listRolloutTargetsRoute } from "./collector/rollouts/list-targets.ts";
import { setupRoute } from "./collector/setup.ts";
import { listAllTokensRoute } from "./collector/tokens/list.ts";
import { revokeTokenRoute } from "./collector/tokens/revoke.ts";
import { volumeRoute } from "./collector/volume/report.ts";
import { changeWatchRoute, deleteWatchRoute } from "./collector/watches/change.ts";
import { createWatchRoute } from "./collector/watches/create.ts";
import { getWatchRoute } from "./collector/watches/get.ts";
import { listWatchesRoute } from "./collector/watches/list.ts";
import { silenceWatchRoute, testWatchRoute } from "./collector/watches/silence.ts";
import { directoryStatusRoute } from "./directory/status.ts";
import { openApiRoute } from "./openapi.ts";
import { createAuthorizationRoute, refuseAuthorizationRoute } from "./operator/authorizations.ts";
import { createDeviceRoute } from "./operator/devices/create.ts";
import { decideDeviceRoute, getDeviceRoute } from "./operator/devices/device.ts";
import { recordProviderLogoutRoute } from "./operator/provider-logouts.ts";
import { listSessionsRoute } from "./operator/sessions/list.ts";
import { revokeSessionRoute } from "./operator/sessions/revoke.ts";
import { recordSignInRoute } from "./operator/sign-ins.ts";
import { recordSignOutRoute } from "./operator/sign-outs.ts";
import { tokenExchangeRoute } from "./operator/token-exchange.ts";
import { createTokenOfSessionRoute } from "./operator/tokens.ts";
import { systemRoute } from "./system.ts";
import { whoami } from "./whoami.ts";

/** Returns the whole API as one list, in the order of the documentation. A new route is one line here. */
export const routesOf = (core: Core): readonly Route[] => [
  openApiRoute(core),
  whoami(core),
  systemRoute(core),
  directoryStatusRoute(core),
  recordSignInRoute(core),
  recordSignOutRoute(core),
  recordProviderLogoutRoute(core),
  createAuthorizationRoute(core),
  refuseAuthorizationRoute(core),
  createDeviceRoute(core),
  getDeviceRoute(core),
  decideDeviceRoute(core),
  createTokenOfSessionRoute(core),
  ...workloadRoutesOf(core),
  listSessionsRoute(core),
  revokeSessionRoute(core),
  ...enrollmentReportsOf({ ...core, db: core.reports }),
  getPolicyRoute(core),
  createPolicyRoute(core),
  freezePolicyRoute(core),
  listTokensRoute(core),
  createTokenRoute(core),
  revokeTokenRoute(core),
  listIdentitiesRoute(core),
  getIdentityRoute(core),
  revokeIdentityRoute(core),
  putInventoryRoute(core),
  getAppliedSetRoute(core),
  putAppliedSetRoute(core),
  putBudgetRoute(core),
  deleteBudgetRoute(core),
  nudgeHostRoute(core),
  listHostQueuesRoute(core),
  closeHostQueueRoute(core),
  requestDiagRoute(core),
  getDiagRoute(core),
  readDiagRoute(core),
  listCertificatesRoute(core),
  revokeCertificateRoute(core),
  ...configReportsOf({ ...core, db: core.reports }),
  publishConfigRoute(core),
  assignConfigToManyRoute(core),
  rollBackConfigsRoute(core),
  assignConfigRoute(core),
  clearConfigRoute(core),
  rollBackConfigRoute(core),
  createRolloutRoute(core),
  pauseRolloutRoute(core),
  resumeRolloutRoute(core),
  abortRolloutRoute(core),
  rollBackRolloutRoute(core),
  ...rolloutReportsOf({ ...core, db: core.reports }),
  ...watchRoutesOf(core),
  ...reportRoutesOf({ ...core, db: core.reports }),
  ...chatRoutesOf(core),
  ...collectorRoutesOf(core),
  ...scimRoutesOf(core),
];

/** The exchange of tokens, which exists only with a configured issuer of workloads. */
const workloadRoutesOf = (core: Core): readonly Route[] =>
  core.config.workloadIssuers.length === 0 ? [] : [tokenExchangeRoute(core)];

const watchRoutesOf = (core: Core): readonly Route[] => [
  listWatchesRoute(core),
  createWatchRoute(core),
  getWatchRoute(core),
  changeWatchRoute(core),
  deleteWatchRoute(core),
  silenceWatchRoute(core),
  testWatchRoute(core),
];

/** Runs on its own pool, so reports cannot starve heartbeats. */
const reportRoutesOf = (core: Core): readonly Route[] => [
  healthReportRoute(core),
  healthFacetsRoute(core),
  healthTimelineRoute(core),
  healthFactorsRoute(core),
  healthAheadRoute(core),
  healthChangesRoute(core),
  healthComparisonRoute(core),
  healthExportRoute(core),
  healthDetailRoute(core),
  healthVolumeRoute(core),
  readEnvelopesRoute(core),
  listInventoryRoute(core),
  volumeRoute(core),
  listBudgetsRoute(core),
  hostCompletenessRoute(core),
  fleetCompletenessRoute(core),
  exportCompletenessRoute(core),
  readStatementRoute(core),
  listAuditEventsRoute(core),
  auditChainRoute(core),
  auditCsvRoute(core),
  auditLinesRoute(core),
];

/** Run on the pool of reports too: each scans the fleet. */
const configReportsOf = (core: Core): readonly Route[] => [
  listConfigsRoute(core),
  exportConfigsRoute(core),
  listUnstoredConfigsRoute(core),
  getConfigRoute(core),
  listAssignmentsRoute(core),
  exportAssignmentsRoute(core),
];

/** Run on the pool of reports: an export may take long. */
const rolloutReportsOf = (core: Core): readonly Route[] => [
  listRolloutsRoute(core),
  getRolloutRoute(core),
  listRolloutTargetsRoute(core),
  exportRolloutTargetsRoute(core),
  previewRolloutRoute(core),
];

/** Run on the pool of reports: an export may take long. */
const enrollmentReportsOf = (core: Core): readonly Route[] => [
  enrollmentReportRoute(core),
  exportRefusalsRoute(core),
  listPoliciesRoute(core),
  exportPoliciesRoute(core),
  listAllTokensRoute(core),
  exportTokensRoute(core),
  simulateEnrollmentRoute(core),
  setupRoute(core),
];

/** The routes of chat, which exist only with a configured model. */
const chatRoutesOf = ({ chat, ...core }: Core): readonly Route[] =>
  chat === null
    ? []
    : [
        chatStatusRoute(core, chat),
        receiptKeysRoute(core, chat),
        listConversationsRoute(core),
        createConversationRoute(core),
        getConversationRoute(core, chat),
        renameConversationRoute(core),
        deleteConversationRoute(core),
        sendMessageRoute(core, chat),
        listReceiptsRoute(core, chat),
      ];

/** The routes for collectors, which exist only with a configured enrollment signer. */
const collectorRoutesOf = ({ signer, ...core }: Core): readonly Route[] =>
  signer === null
    ? []
    : [
        enrollRoute({ ...core, signer }),
        renewRoute({ ...core, signer }),
        heartbeatRoute(core),
        configDesiredRoute(core),
        diagRoute(core),
      ];
