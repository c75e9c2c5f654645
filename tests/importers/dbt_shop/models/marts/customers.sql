with stg_orders as (
    select customer_id, order_date from {{ ref('stg_orders') }} where status <> 'returned'
),

first_orders as (
    select customer_id, min(order_date) as first_order, max(order_date) as last_order, count(*) as number_of_orders
    from stg_orders
    group by customer_id
),

returned as (
    -- reads the model again, not the query above of the same name
    select customer_id, count(*) as number_of_returns
    from {{ ref('stg_orders') }}
    where status = 'returned'
    group by customer_id
),

amounts as (
    select {{ ref('orders') }}.customer_id, sum(amount) as lifetime_value
    from {{ ref('orders') }}
    group by 1
)

select
    customers.customer_id,
    first_name || coalesce(' ' || last_name, '') as "name",
    first_orders.first_order,
    first_orders.last_order,
    coalesce(first_orders.number_of_orders, 0) as number_of_orders,
    coalesce(returned.number_of_returns, 0) as number_of_returns,
    amounts.lifetime_value
from {{ ref('stg_customers') }} as customers
left join first_orders on customers.customer_id = first_orders.customer_id
left join returned on customers.customer_id = returned.customer_id
left join amounts on customers.customer_id = amounts.customer_id
