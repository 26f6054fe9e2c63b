import { PictureOutlined } from "@ant-design/icons";
import { Link } from "react-router";
import { useLabel } from "@/api/dictionaries";
import { ENDED, type Task } from "@/api/types";
import { relative, useT } from "@/i18n";
import { StatusTag } from "@/ui/StatusTag";

export type TaskItem = Task;

/** A task as a tile: its first picture, tool, state and age. */
export function TaskTile({ task }: { task: TaskItem }) {
  const t = useT();
  const label = useLabel();
  const title = task.tool ? label("tools", task.tool) : task.name || t("flow");
  return (
    <Link to={`/tasks/${task.taskId}`} className="tile">
      <span className="tile-picture checker">
        {task.thumbnail ? <img src={task.thumbnail.url} alt="" loading="lazy" /> : <PictureOutlined aria-hidden="true" />}
        {ENDED.has(task.status) ? null : <span className="tile-bar" style={{ width: `${task.progress}%` }} />}
      </span>
      <span className="tile-words">
        <span className="tile-title">{title}</span>
        <span className="row" style={{ gap: 6 }}>
          {task.status === "COMPLETED" ? null : <StatusTag status={task.status} />}
          <span className="soft">{relative(task.createdAt)}</span>
        </span>
      </span>
    </Link>
  );
}
