import { Route, Router } from "@solidjs/router";
import { render } from "solid-js/web";
import { createApiClient, fetchAhead } from "./api/api-client.ts";
import { Fleet } from "./fleet/fleet.tsx";
import { parseView, reportPath } from "./fleet/view/view-state.ts";
import { HomePage } from "./home/home-page.tsx";
import { PageContextProvider } from "./session/page-context.tsx";
import { RequiresScope } from "./session/session-gate.tsx";
import { NoSuchPage, Shell } from "./shell/shell.tsx";

/** The report takes longer than the session, which decides what is shown: both are requested at once. */
const pathsAhead = (): string[] => (location.pathname === "/fleet" ? [reportPath(parseView(location.search))] : []);

const FleetRoute = () => (
  <RequiresScope scope="audit">
    <Fleet />
  </RequiresScope>
);

const App = () => {
  // Not in the JSX, where each access would create another client.
  const api = createApiClient({ fetch: fetchAhead((...request) => fetch(...request), pathsAhead()) });
  return (
    <PageContextProvider api={api}>
      <Router root={Shell}>
        <Route path="/" component={HomePage} />
        <Route path="/fleet" component={FleetRoute} />
        <Route path="*" component={NoSuchPage} />
      </Router>
    </PageContextProvider>
  );
};

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
render(() => <App />, root);
