{# this comment is Jinja's, and is gone after dbt compile #}
with orders as (
    select * from {{ source('raw', 'orders') }}
)

select
    id as order_id,
    user_id as customer_id,
    order_date,
    status
from orders
