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
import { appliedSetRoutes } from "./collector/applied-sets.ts";
import { budgetChanges, budgetReports } from "./collector/budgets.ts";
import { exportCompletenessRoute } from "./collector/completeness/export.ts";
import { fleetCompletenessRoute } from "./collector/completeness/report.ts";
import { readStatementRoute } from "./collector/completeness/statement.ts";
import { configDesiredRoute } from "./collector/config-desired.ts";
import { exportAssignmentsRoute, exportConfigsRoute } from "./collector/configs/export.ts";
import { previewRolloutRoute } from "./collector/configs/preview.ts";
import { publishConfigRoute } from "./collector/configs/publish.ts";
import { configReports, getConfigRoute } from "./collector/configs/read.ts";
import { rollBackConfigsRoute } from "./collector/configs/roll-back-many.ts";
import { desiredConfigRoutes } from "./collector/desired-config.ts";
import { diagRoute } from "./collector/diag.ts";
import { enrollRoute } from "./collector/enroll.ts";
import {
  exportPoliciesRoute,
  exportRefusalsRoute,
  exportTokensRoute,
} from "./collector/enrollment/export.ts";
import { enrollmentReportRoute } from "./collector/enrollment/report.ts";
import { enrollmentListRoutes } from "./collector/enrollment-lists.ts";
import { simulateEnrollmentRoute } from "./collector/enrollment-policies/simulate.ts";
import { enrollmentPolicyRoutes, tokenRoutes } from "./collector/enrollment-policies.ts";
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
import { certificateRoutes, identityRoutes } from "./collector/identities.ts";
import { listInventoryRoute } from "./collector/inventory/list.ts";
import { putInventoryRoute } from "./collector/inventory/put.ts";
import { renewRoute } from "./collector/renew.ts";
import { rolloutControls } from "./collector/rollouts/control.ts";
import { createRolloutRoute } from "./collector/rollouts/create.ts";
import { rolloutReports } from "./collector/rollouts/read.ts";
import { exportRolloutTargetsRoute, rolloutTargets } from "./collector/rollouts/targets.ts";
import { setupRoute } from "./collector/setup.ts";
import { volumeRoute } from "./collector/volume/report.ts";
import { watchActs, watchChanges } from "./collector/watches/change.ts";
import { watchReports } from "./collector/watches/read.ts";
import { directoryStatusRoute } from "./directory/status.ts";
import { openApiRoute } from "./openapi.ts";
import { createAuthorizationRoute, refuseAuthorizationRoute } from "./operator/authorizations.ts";
import { createDeviceRoute } from "./operator/devices/create.ts";
import { decideDeviceRoute, getDeviceRoute } from "./operator/devices/device.ts";
import { recordProviderLogoutRoute } from "./operator/provider-logouts.ts";
import { sessionRoutes } from "./operator/sessions.ts";
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
  ...Object.values(sessionRoutes(core)),
  ...enrollmentReportsOf({ ...core, db: core.reports }),
  ...Object.values(enrollmentPolicyRoutes(core)),
  ...Object.values(tokenRoutes(core)),
  ...Object.values(identityRoutes(core)),
  ...Object.values(desiredConfigRoutes(core)),
  ...Object.values(certificateRoutes(core)),
  putInventoryRoute(core),
  ...Object.values(appliedSetRoutes(core)),
  ...Object.values(budgetChanges(core)),
  nudgeHostRoute(core),
  listHostQueuesRoute(core),
  closeHostQueueRoute(core),
  requestDiagRoute(core),
  getDiagRoute(core),
  readDiagRoute(core),
  ...configReportsOf({ ...core, db: core.reports }),
  publishConfigRoute(core),
  rollBackConfigsRoute(core),
  ...rolloutReportsOf({ ...core, db: core.reports }),
  createRolloutRoute(core),
  ...Object.values(rolloutControls(core)),
  ...Object.values(watchReports(core)),
  ...Object.values(watchChanges(core)),
  ...Object.values(watchActs(core)),
  ...reportRoutesOf({ ...core, db: core.reports }),
  ...chatRoutesOf(core),
  ...collectorRoutesOf(core),
  ...scimRoutesOf(core),
];

/** The exchange of tokens, which exists only with a configured issuer of workloads. */
const workloadRoutesOf = (core: Core): readonly Route[] =>
  core.config.workloadIssuers.length === 0 ? [] : [tokenExchangeRoute(core)];

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
  ...Object.values(budgetReports(core)),
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
  exportConfigsRoute(core),
  ...Object.values(configReports(core)),
  getConfigRoute(core),
  exportAssignmentsRoute(core),
];

/** Run on the pool of reports: an export may take long. */
const rolloutReportsOf = (core: Core): readonly Route[] => [
  ...Object.values(rolloutReports(core)),
  ...Object.values(rolloutTargets(core)),
  exportRolloutTargetsRoute(core),
  previewRolloutRoute(core),
];

/** Run on the pool of reports: an export may take long. */
const enrollmentReportsOf = (core: Core): readonly Route[] => [
  enrollmentReportRoute(core),
  ...Object.values(enrollmentListRoutes(core)),
  exportRefusalsRoute(core),
  exportPoliciesRoute(core),
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
