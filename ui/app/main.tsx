import { Route, Router } from "@solidjs/router";
import { render } from "solid-js/web";
import { createApiClient, fetchAhead } from "./api/api-client.ts";
import { FleetPage } from "./fleet/fleet-page.tsx";
import { linkFaults, parseView, reportPath } from "./fleet/view/view-state.ts";
import { PageContextProvider } from "./session/page-context.tsx";
import { auditRoute, lazyAuditRoute, lazyRoute } from "./shell/audit-route.tsx";
import { NoSuchPage, Shell } from "./shell/shell.tsx";

/** The report takes longer than the session, which decides what is shown: both are requested at once, before anything is drawn. */
const pathsAhead = (): string[] => [
  "/api/session",
  ...(location.pathname === "/fleet" && linkFaults(location.search).length === 0
    ? [reportPath(parseView(location.search))]
    : []),
];

// Created once: a component made inside the JSX would be another one at each access.
const HomeRoute = lazyRoute(async () => (await import("./home/home-page.tsx")).HomePage);
const FleetRoute = auditRoute("Fleet", FleetPage);
const HostRoute = lazyAuditRoute(
  "Host",
  async () => (await import("./host/host-page.tsx")).HostPage,
);
const AuditRoute = lazyAuditRoute(
  "Audit",
  async () => (await import("./audit/audit-page.tsx")).AuditPage,
);
const ConfigsRoute = lazyAuditRoute(
  "Configs",
  async () => (await import("./configs/configs-page.tsx")).ConfigsPage,
);
const ConfigRoute = lazyAuditRoute(
  "Config",
  async () => (await import("./configs/config-page.tsx")).ConfigPage,
);
const RolloutsRoute = lazyAuditRoute(
  "Rollouts",
  async () => (await import("./rollouts/rollouts-page.tsx")).RolloutsPage,
);
const RolloutRoute = lazyAuditRoute(
  "Rollout",
  async () => (await import("./rollouts/rollout-page.tsx")).RolloutPage,
);
const CompletenessRoute = lazyAuditRoute(
  "Completeness",
  async () => (await import("./completeness/completeness-page.tsx")).CompletenessPage,
);
const InventoryRoute = lazyAuditRoute(
  "Inventory",
  async () => (await import("./inventory/inventory-page.tsx")).InventoryPage,
);
const VolumeRoute = lazyAuditRoute(
  "Volume",
  async () => (await import("./volume/volume-page.tsx")).VolumePage,
);
const SystemRoute = lazyAuditRoute(
  "System",
  async () => (await import("./system/system-page.tsx")).SystemPage,
);
const WatchesRoute = lazyAuditRoute(
  "Watches",
  async () => (await import("./watches/watches-page.tsx")).WatchesPage,
);
const WatchRoute = lazyAuditRoute(
  "Watch",
  async () => (await import("./watches/watch-page.tsx")).WatchPage,
);
const EnrollmentRoute = lazyAuditRoute(
  "Enrollment",
  async () => (await import("./enrollment/enrollment-page.tsx")).EnrollmentPage,
);

const App = () => {
  // Not in the JSX, where each access would create another client.
  const api = createApiClient({
    fetch: fetchAhead((...request) => fetch(...request), pathsAhead()),
  });
  return (
    <PageContextProvider api={api}>
      <Router root={Shell}>
        <Route path="/" component={HomeRoute} />
        <Route path="/fleet" component={FleetRoute} />
        <Route path="/hosts/:host" component={HostRoute} />
        <Route path="/completeness" component={CompletenessRoute} />
        <Route path="/inventory" component={InventoryRoute} />
        <Route path="/volume" component={VolumeRoute} />
        <Route path="/audit" component={AuditRoute} />
        <Route path="/configs" component={ConfigsRoute} />
        <Route path="/configs/:id" component={ConfigRoute} />
        <Route path="/rollouts" component={RolloutsRoute} />
        <Route path="/rollouts/:id" component={RolloutRoute} />
        <Route path="/enrollment" component={EnrollmentRoute} />
        <Route path="/watches" component={WatchesRoute} />
        <Route path="/watches/:id" component={WatchRoute} />
        <Route path="/system" component={SystemRoute} />
        <Route path="*" component={NoSuchPage} />
      </Router>
    </PageContextProvider>
  );
};

// The router rejects an empty segment: an identity pasted as it is becomes one segment.
const pastedHost = /^\/hosts\/([^/]+:\/\/.+)$/.exec(location.pathname)?.[1];
if (pastedHost !== undefined)
  history.replaceState(null, "", `/hosts/${encodeURIComponent(pastedHost)}${location.search}`);

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
render(() => <App />, root);
