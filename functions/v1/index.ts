import type { Core } from "../core.ts";
import type { Route } from "../http/route-definition.ts";
import { scimRoutesOf } from "../scim/index.ts";
import { auditCsvRoute, auditLinesRoute, auditReports } from "./audit-events.ts";
import { sendMessageRoute } from "./chat/sessions/messages.ts";
import { chatReports, conversationRoutes, listReceiptsRoute } from "./chat/sessions.ts";
import { appliedSetRoutes } from "./collector/applied-sets.ts";
import { budgetChanges, budgetReports } from "./collector/budgets.ts";
import { caBundleRoute } from "./collector/ca-bundle.ts";
import { completenessReports, exportCompletenessRoute } from "./collector/completeness/report.ts";
import { readStatementRoute } from "./collector/completeness/statement.ts";
import { configDesiredRoute } from "./collector/config-desired.ts";
import { rolloutPreviews } from "./collector/configs/preview.ts";
import { publishConfigRoute } from "./collector/configs/publish.ts";
import {
  configReports,
  exportAssignmentsRoute,
  exportConfigsRoute,
  getConfigRoute,
} from "./collector/configs/read.ts";
import { configRollbacks, desiredConfigRoutes } from "./collector/desired-config.ts";
import { diagRoute } from "./collector/diag.ts";
import { enrollRoute } from "./collector/enroll.ts";
import {
  enrollmentListRoutes,
  enrollmentReports,
  exportPoliciesRoute,
  exportRefusalsRoute,
  exportTokensRoute,
} from "./collector/enrollment.ts";
import { enrollmentSimulation } from "./collector/enrollment-policies/simulate.ts";
import { enrollmentPolicyRoutes, tokenRoutes } from "./collector/enrollment-policies.ts";
import { aheadReports } from "./collector/health/ahead.ts";
import { changeReports } from "./collector/health/changes.ts";
import { comparisonReports } from "./collector/health/comparison.ts";
import { healthExportRoute } from "./collector/health/export.ts";
import { facetReports } from "./collector/health/facets.ts";
import { factorReports } from "./collector/health/factors.ts";
import { hostReports } from "./collector/health/get.ts";
import { healthReports } from "./collector/health/report.ts";
import { timelineReports } from "./collector/health/timeline.ts";
import { trendReports } from "./collector/health/trends.ts";
import { hostVolumes } from "./collector/health/volume.ts";
import { heartbeatRoute } from "./collector/heartbeat.ts";
import { hostActions, readDiagRoute } from "./collector/hosts/actions.ts";
import { hostHours, hostQueues } from "./collector/hosts/completeness.ts";
import { readEnvelopesRoute } from "./collector/hosts/envelopes.ts";
import { certificateRoutes, identityRoutes } from "./collector/identities.ts";
import { inventoryReports, putInventoryRoute } from "./collector/inventory.ts";
import { renewRoute } from "./collector/renew.ts";
import { rolloutCreation } from "./collector/rollouts/create.ts";
import {
  exportRolloutTargetsRoute,
  rolloutControls,
  rolloutReports,
} from "./collector/rollouts/rollouts.ts";
import { setupReports } from "./collector/setup.ts";
import { volumeReports } from "./collector/volume/report.ts";
import { watchActs, watchChanges, watchReports } from "./collector/watches.ts";
import { directoryReports } from "./directory/status.ts";
import { nowRoutes } from "./now.ts";
import { agentRoute } from "./opamp.ts";
import { openApiRoute } from "./openapi.ts";
import { authorizationRoutes, codeRedemption, deviceRoutes } from "./operator/program-sign-ins.ts";
import { sessionRoutes } from "./operator/sessions.ts";
import { tokenExchange } from "./operator/token-exchange.ts";
import { webReports } from "./operator/web-reports.ts";
import { systemCalendars } from "./system/calendar.ts";
import { systemTrusts } from "./system/trust.ts";
import { systemReports } from "./system.ts";
import { callerReport } from "./whoami.ts";

/** A route, or those of a resource. */
type Entry = Route | Readonly<Record<string, Route>>;

const isRoute = (entry: Entry): entry is Route => typeof entry.handle === "function";

/** Returns the whole API as one list, in the order of the documentation. A new route or resource is one line here. */
export const routesOf = (core: Core): readonly Route[] => {
  // Reports have their own pool, because each scans the fleet or may take long: so they cannot starve heartbeats.
  const reports = { ...core, db: core.reports };
  return [
    ...enrollmentEntries(reports),
    ...operatorEntries(core),
    ...reportEntries(reports),
    ...chatEntries(core),
    ...collectorEntries(core),
    ...scimRoutesOf(core),
  ].flatMap((entry) => (isRoute(entry) ? [entry] : Object.values(entry)));
};

const enrollmentEntries = (core: Core): readonly Entry[] => [
  enrollmentReports(core),
  enrollmentListRoutes(core),
  exportRefusalsRoute(core),
  exportPoliciesRoute(core),
  exportTokensRoute(core),
  enrollmentSimulation(core),
  setupReports(core),
];

const operatorEntries = (core: Core): readonly Entry[] => [
  openApiRoute(core),
  callerReport(core),
  systemCalendars(core),
  systemTrusts(core),
  systemReports(core),
  directoryReports(core),
  webReports(core),
  authorizationRoutes(core),
  deviceRoutes(core),
  codeRedemption(core),
  // Tokens are exchanged only with a configured issuer of workloads.
  ...(core.config.workloadIssuers().length === 0 ? [] : [tokenExchange(core)]),
  sessionRoutes(core),
  enrollmentPolicyRoutes(core),
  tokenRoutes(core),
  identityRoutes(core),
  desiredConfigRoutes(core),
  certificateRoutes(core),
  putInventoryRoute(core),
  appliedSetRoutes(core),
  budgetChanges(core),
  hostActions(core),
  readDiagRoute(core),
  hostQueues(core),
  publishConfigRoute(core),
  configRollbacks(core),
  rolloutCreation(core),
  rolloutControls(core),
  watchReports(core),
  watchChanges(core),
  watchActs(core),
  nowRoutes(core),
];

const reportEntries = (core: Core): readonly Entry[] => [
  exportConfigsRoute(core),
  configReports(core),
  getConfigRoute(core),
  exportAssignmentsRoute(core),
  rolloutReports(core),
  exportRolloutTargetsRoute(core),
  rolloutPreviews(core),
  healthReports(core),
  facetReports(core),
  timelineReports(core),
  trendReports(core),
  factorReports(core),
  aheadReports(core),
  changeReports(core),
  comparisonReports(core),
  healthExportRoute(core),
  hostReports(core),
  hostVolumes(core),
  readEnvelopesRoute(core),
  inventoryReports(core),
  volumeReports(core),
  budgetReports(core),
  hostHours(core),
  completenessReports(core),
  exportCompletenessRoute(core),
  readStatementRoute(core),
  auditReports(core),
  auditCsvRoute(core),
  auditLinesRoute(core),
];

/** The routes of chat, which exist only with a configured model. */
const chatEntries = ({ chat, ...core }: Core): readonly Entry[] =>
  chat === null
    ? []
    : [
        chatReports(core, chat),
        conversationRoutes(core, chat),
        sendMessageRoute(core, chat),
        listReceiptsRoute(core, chat),
      ];

/** The routes for collectors, which exist only with a configured enrollment signer. */
const collectorEntries = ({ signer, ...core }: Core): readonly Entry[] =>
  signer === null
    ? []
    : [
        enrollRoute({ ...core, signer }),
        renewRoute({ ...core, signer }),
        heartbeatRoute(core),
        configDesiredRoute(core),
        diagRoute(core),
        caBundleRoute(core),
        agentRoute({ ...core, signer }),
      ];
