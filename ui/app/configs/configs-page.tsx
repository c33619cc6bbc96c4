import { RecentEvents } from "../audit/recent-events.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import "../design/page.css";

/** `/configs`: the configs that were published, newest first. */
export const ConfigsPage = () => {
  createPageTitle(() => "Configs");
  return (
    <div class="page">
      <h1>Configs</h1>
      <RecentEvents action="config.publish" />
    </div>
  );
};
