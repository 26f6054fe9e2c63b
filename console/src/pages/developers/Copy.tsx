import { CheckOutlined, CopyOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { useState } from "react";
import { useT } from "@/i18n";

export function Copy({ text, name }: { text: string; name: string }) {
  const t = useT();
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  return (
    <>
      <Button size="small" icon={isDone ? <CheckOutlined /> : <CopyOutlined />} onClick={() => void copy()}>
        {name}
      </Button>
      <span role="status" className="visually-hidden">
        {isDone ? t("copied") : ""}
      </span>
    </>
  );
}
