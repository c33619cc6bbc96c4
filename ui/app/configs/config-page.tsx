import { useParams } from "@solidjs/router";
import { RecentEvents } from "../audit/recent-events.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import "../design/page.css";

/** `/configs/{id}`: the events of one published config, newest first. */
export const ConfigPage = () => {
  const params = useParams<{ id: string }>();
  createPageTitle(() => `Config ${params.id}`);
  return (
    <div class="page">
      <h1>
        Config <code>{params.id}</code>
      </h1>
      <RecentEvents target={params.id} />
    </div>
  );
};
